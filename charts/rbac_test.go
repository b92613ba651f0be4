// Package charts checks that the chart's roles, written by hand with a reason for each rule, grant exactly the rights that
// the code asks for in its markers.
package charts

import (
	"os"
	"regexp"
	"sort"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

func TestRolesGrantWhatTheCodeNeeds(t *testing.T) {
	for part, generated := range map[string]string{
		"controller": "../config/rbac/controller/role.yaml",
		"bridge":     "../config/rbac/bridge/role.yaml",
	} {
		t.Run(part, func(t *testing.T) {
			var needed rbacv1.ClusterRole
			raw, err := os.ReadFile(generated)
			if err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal(raw, &needed); err != nil {
				t.Fatal(err)
			}
			granted := roles(t, "mcptask/templates/"+part+"-rbac.yaml")
			if want, got := rights(needed), rights(granted); want != got {
				t.Errorf("the code needs\n%s\nthe chart grants\n%s", want, got)
			}
		})
	}
}

var action = regexp.MustCompile(`(?m)^.*\{\{.*\n?`)

// roles are the rules of all the template's roles but that for leader election, which the code has no markers for. They have
// actions only outside their rules.
func roles(t *testing.T, file string) rbacv1.ClusterRole {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all rbacv1.ClusterRole
	for _, document := range strings.Split(string(raw), "---\n") {
		if !strings.Contains(document, "\nrules:\n") || strings.Contains(document, "kind: Role\n") {
			continue
		}
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(action.ReplaceAllString(document, "")), &role); err != nil {
			t.Fatal(err)
		}
		all.Rules = append(all.Rules, role.Rules...)
	}
	return all
}

// rights are the single rights of a role, one a line.
func rights(role rbacv1.ClusterRole) string {
	set := map[string]bool{}
	for _, rule := range role.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					set[verb+" "+resource+"."+group] = true
				}
			}
		}
	}
	lines := make([]string, 0, len(set))
	for line := range set {
		lines = append(lines, line)
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}
