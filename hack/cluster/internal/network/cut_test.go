package network

import (
	"strings"
	"testing"
)

func TestCutRules(t *testing.T) {
	plan, err := Allot("one", nil, Override{})
	if err != nil {
		t.Fatal(err)
	}
	host := plan.Host().String()
	rules := plan.CutControlPlane(6443)
	for _, want := range []string{
		"ip saddr " + host + " tcp sport 6443 drop\n", "ip daddr " + host + " tcp dport 6443 drop\n",
		"ip saddr " + host + " tcp dport 10250 drop\n", "ip daddr " + host + " tcp sport 10250 drop\n",
	} {
		if !strings.Contains(rules, want) {
			t.Errorf("the rules lack %q:\n%s", want, rules)
		}
	}
	if strings.Contains(rules, "eth0") {
		t.Errorf("more than the control plane is cut:\n%s", rules)
	}
	all := CutAll()
	for _, want := range []string{"iifname \"eth0\" drop\n", "oifname \"eth0\" drop\n"} {
		if !strings.Contains(all, want) {
			t.Errorf("the rules lack %q:\n%s", want, all)
		}
	}
	for _, rules := range []string{rules, all} {
		if !strings.HasPrefix(rules, Heal()) {
			t.Errorf("a second cut would add to the first:\n%s", rules)
		}
	}
}
