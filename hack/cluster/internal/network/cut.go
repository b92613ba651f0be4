package network

import (
	"fmt"
	"strings"
)

// cutTable is the packet filter's table that cuts a node off. It is in the node's own network namespace and ends with it.
const cutTable = "inet cluster-cut"

// kubeletPort is where the control plane reaches a kubelet.
const kubeletPort = 10250

// CutControlPlane are the rules, for nft, by which a node and its Pods lose the control plane, and the control plane loses the
// kubelet. All else goes on: other nodes, Pods, this machine.
func (p Plan) CutControlPlane(apiPort uint16) string {
	return cut(
		[]string{fmt.Sprintf("ip saddr %s tcp sport %d", p.Host(), apiPort), fmt.Sprintf("ip saddr %s tcp dport %d", p.Host(), kubeletPort)},
		[]string{fmt.Sprintf("ip daddr %s tcp dport %d", p.Host(), apiPort), fmt.Sprintf("ip daddr %s tcp sport %d", p.Host(), kubeletPort)},
	)
}

// CutAll are the rules by which a node loses everybody.
func CutAll() string { return cut([]string{`iifname "eth0"`}, []string{`oifname "eth0"`}) }

// Heal are the rules that end a cut, where there is one.
func Heal() string { return fmt.Sprintf("table %s\ndelete table %s\n", cutTable, cutTable) }

// cut drops what comes and what leaves. It looks at what comes before, and at what leaves after, addresses are translated.
func cut(in, out []string) string {
	chain := func(name, hook string, conditions []string) string {
		return fmt.Sprintf("\tchain %s {\n\t\ttype filter hook %s\n\t\t%s drop\n\t}\n", name, hook, strings.Join(conditions, " drop\n\t\t"))
	}
	return Heal() + "table " + cutTable + " {\n" +
		chain("in", "prerouting priority -400;", in) + chain("out", "postrouting priority 400;", out) + "}\n"
}
