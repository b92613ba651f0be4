package network

import (
	"net"
	"net/netip"
	"strings"
	"testing"
)

func prefixes(s ...string) (taken []Taken) {
	for _, p := range s {
		taken = append(taken, Taken{netip.MustParsePrefix(p), "interface test0"})
	}
	return taken
}

func TestAllot(t *testing.T) {
	first, err := Allot("mcptask", nil, Override{})
	if err != nil {
		t.Fatal(err)
	}
	again, err := Allot("mcptask", nil, Override{})
	if err != nil || again != first {
		t.Errorf("the same name got %v, then %v, %v", first, again, err)
	}
	// The networks of the first are in use: another cluster gets others.
	taken := prefixes(first.Nodes.String(), first.Pods.String(), first.Services.String())
	second, err := Allot("mcptask", taken, Override{})
	if err != nil {
		t.Fatal(err)
	}
	if second.Nodes.Overlaps(first.Nodes) || second.Pods.Overlaps(first.Pods) || second.Services.Overlaps(first.Services) {
		t.Errorf("%v overlaps with %v", second, first)
	}
	// Every network of the first block is in use.
	other, err := Allot("mcptask", prefixes("172.30.0.0/16"), Override{})
	if err != nil || netip.MustParsePrefix("172.30.0.0/16").Overlaps(other.Nodes) {
		t.Errorf("got %v, %v", other, err)
	}
	// A wider route, as of a VPN, harms only nodes in it.
	if vpn, err := Allot("mcptask", prefixes("10.0.0.0/8"), Override{}); err != nil || vpn != first {
		t.Errorf("with a VPN: %v, %v", vpn, err)
	}
	if plan, err := Allot("mcptask", prefixes("172.16.0.0/12", "10.0.0.0/8", "10.96.0.0/11"), Override{}); err == nil {
		t.Errorf("found %v where nothing is free", plan)
	}
}

func TestAllotChosen(t *testing.T) {
	chosen := Override{Nodes: netip.MustParsePrefix("192.168.7.0/24"), Services: netip.MustParsePrefix("10.50.0.0/16")}
	plan, err := Allot("mcptask", nil, chosen)
	if err != nil || plan.Nodes != chosen.Nodes || plan.Services != chosen.Services || !plan.Pods.IsValid() {
		t.Errorf("got %v, %v", plan, err)
	}
	for _, c := range []struct {
		chosen Override
		taken  []Taken
		want   string
	}{
		{chosen, prefixes("192.168.7.128/25"), "--subnet: 192.168.7.0/24 is in use: 192.168.7.128/25 of interface test0"},
		{chosen, prefixes("10.50.3.0/24"), "--services: 10.50.0.0/16 is in use"},
		{Override{Nodes: netip.MustParsePrefix("192.168.7.1/24")}, nil, "--subnet: 192.168.7.1/24 is not"},
		{Override{Pods: netip.MustParsePrefix("10.0.0.0/8")}, nil, "--pods: 10.0.0.0/8 is not"},
		{Override{Pods: netip.MustParsePrefix("fd00::/16")}, nil, "--pods: fd00::/16 is not"},
		{Override{Pods: netip.MustParsePrefix("10.1.0.0/16"), Services: netip.MustParsePrefix("10.1.0.0/16")}, nil, "overlap"},
	} {
		if plan, err := Allot("mcptask", c.taken, c.chosen); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v got %v, %v; want %q", c.chosen, plan, err, c.want)
		}
	}
}

func TestAddresses(t *testing.T) {
	p := Plan{netip.MustParsePrefix("172.30.7.0/24"), netip.MustParsePrefix("10.231.0.0/16"), netip.MustParsePrefix("10.103.0.0/16")}
	for _, c := range []struct{ got, want string }{
		{p.Host().String(), "172.30.7.1"}, {p.Node(2).String(), "172.30.7.12"}, {p.Node(MaxNodes).String(), "172.30.7.74"},
		{p.PodsOf(2).String(), "10.231.2.0/24"}, {p.APIService().String(), "10.103.0.1"}, {p.DNS().String(), "10.103.0.10"},
		{p.Loopback().String(), "127.30.7.1"}, {p.onHost(p.Host()).String(), "172.30.7.1/24"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
}

func TestNames(t *testing.T) {
	long := "a-very-long-name-of-a-cluster"
	for _, cluster := range []string{"a", "mcptask", "ct1", "exactly-10", long} {
		for _, name := range []string{bridgeName(cluster), linkName(cluster, MaxNodes)} {
			if len(name) > 15 {
				t.Errorf("%s is too long", name)
			}
			if !isOwn(cluster, name) {
				t.Errorf("%s is not known as an interface of %s", name, cluster)
			}
		}
	}
	if bridgeName(long) == bridgeName(long+"s") {
		t.Error("two long names share a bridge")
	}
	for _, other := range []string{"ct1-br-br", "ct1-n", "ct1-n100", "ct1", "xct1-br", "ct1-n1-br", "ct10-br"} {
		if isOwn("ct1", other) {
			t.Errorf("%s is taken for an interface of ct1", other)
		}
	}
}

func TestPorts(t *testing.T) {
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	elsewhere := netip.MustParseAddr("192.0.2.77") // not an address of this machine
	if err := CheckPort(elsewhere, port); err == nil || !strings.Contains(err.Error(), "is taken by network.test (pid ") {
		t.Errorf("a port that this test listens on: %v", err)
	}
	if free, err := FreePort(elsewhere, port); err != nil || free <= port {
		t.Errorf("the next free port after %d is %d, %v", port, free, err)
	}
	if err := CheckPort(netip.MustParseAddr("127.30.7.1"), 0); err != nil {
		t.Errorf("any port of a loopback address: %v", err)
	}
}

func TestListeningInode(t *testing.T) {
	const line = "   0: 0100007F:192B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1 0000000000000000 100 0 0 10 0"
	if inode, ok := listeningInode(line, 6443); !ok || inode != "4242" {
		t.Errorf("got %q, %v", inode, ok)
	}
	if _, ok := listeningInode(line, 6444); ok {
		t.Error("took another port")
	}
	if _, ok := listeningInode(strings.Replace(line, " 0A ", " 01 ", 1), 6443); ok {
		t.Error("took a connection for a listener")
	}
}
