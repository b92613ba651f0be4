// Package network gives every cluster of a machine addresses of its own and
// makes the links between its nodes.
package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
)

// MaxNodes is how many nodes the addresses of a cluster suffice for.
const MaxNodes = 64

// slots is how many clusters have addresses of their own in one block.
const slots = 32

// nodeBlocks are the networks that node networks are taken from, the second
// when everything in the first is in use, and so on.
var nodeBlocks = []string{"172.30.0.0", "172.29.0.0", "172.28.0.0", "10.89.0.0"}

// Plan is the addresses of a cluster.
type Plan struct {
	Nodes    netip.Prefix // /24: the host has .1, node i has .10+i
	Pods     netip.Prefix // /16: node i has the i-th /24
	Services netip.Prefix // /16
}

// Taken is a network that this machine uses already, and for what.
type Taken struct {
	Prefix netip.Prefix
	By     string
}

// Override holds the networks that somebody has chosen; an invalid prefix means
// that nobody has.
type Override struct{ Nodes, Pods, Services netip.Prefix }

// Allot chooses networks for a cluster that collide with nothing on this
// machine. The same name gets the same networks as long as they are free.
func Allot(name string, taken []Taken, chosen Override) (Plan, error) {
	if err := chosen.validate(); err != nil {
		return Plan{}, err
	}
	if err := chosen.collides(taken); err != nil {
		return Plan{}, err
	}
	h := fnv.New32a()
	h.Write([]byte(name))
	first := int(h.Sum32() % slots)
	for _, block := range nodeBlocks {
		for i := range slots {
			slot := (first + i) % slots
			candidate := Plan{
				Nodes:    netip.PrefixFrom(add(netip.MustParseAddr(block), slot<<8), 24),
				Pods:     netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(224 + slot)}), 16),
				Services: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(96 + slot)}), 16),
			}
			candidate = chosen.apply(candidate)
			if candidate.collides(taken) == nil && candidate.disjoint() {
				return candidate, nil
			}
		}
	}
	return Plan{}, errors.New("found no free networks for the cluster; choose some with --subnet, --pods and --services")
}

func (o Override) validate() error {
	for _, p := range []struct {
		flag   string
		prefix netip.Prefix
		bits   int
	}{{"--subnet", o.Nodes, 24}, {"--pods", o.Pods, 16}, {"--services", o.Services, 16}} {
		if !p.prefix.IsValid() {
			continue
		}
		if !p.prefix.Addr().Is4() || p.prefix.Bits() != p.bits || p.prefix.Masked() != p.prefix {
			return fmt.Errorf("%s: %s is not an IPv4 network of the form A.B.C.D/%d", p.flag, p.prefix, p.bits)
		}
	}
	if !(Plan{o.Nodes, o.Pods, o.Services}).disjoint() {
		return errors.New("--subnet, --pods and --services overlap")
	}
	return nil
}

// collides names the flag to change, because there is one.
func (o Override) collides(taken []Taken) error {
	for _, p := range []struct {
		flag string
		plan Plan
	}{{"--subnet", Plan{Nodes: o.Nodes}}, {"--pods", Plan{Pods: o.Pods}}, {"--services", Plan{Services: o.Services}}} {
		if err := p.plan.collides(taken); err != nil {
			return fmt.Errorf("%s: %w", p.flag, err)
		}
	}
	return nil
}

func (o Override) apply(p Plan) Plan {
	if o.Nodes.IsValid() {
		p.Nodes = o.Nodes
	}
	if o.Pods.IsValid() {
		p.Pods = o.Pods
	}
	if o.Services.IsValid() {
		p.Services = o.Services
	}
	return p
}

// collides tells what a network of the plan would take away. The node network
// must overlap with nothing. For Pods and Services a wider route (of a VPN, say,
// to all of 10.0.0.0/8) does no harm: theirs is more specific.
func (p Plan) collides(taken []Taken) error {
	for _, t := range taken {
		if p.Nodes.IsValid() && p.Nodes.Overlaps(t.Prefix) {
			return fmt.Errorf("%s is in use: %s of %s", p.Nodes, t.Prefix, t.By)
		}
		for _, own := range []netip.Prefix{p.Pods, p.Services} {
			if own.IsValid() && own.Overlaps(t.Prefix) && t.Prefix.Bits() >= own.Bits() {
				return fmt.Errorf("%s is in use: %s of %s", own, t.Prefix, t.By)
			}
		}
	}
	return nil
}

func (p Plan) disjoint() bool {
	overlap := func(a, b netip.Prefix) bool { return a.IsValid() && b.IsValid() && a.Overlaps(b) }
	return !overlap(p.Nodes, p.Pods) && !overlap(p.Nodes, p.Services) && !overlap(p.Pods, p.Services)
}

// Host is the machine's own address, and the API server's.
func (p Plan) Host() netip.Addr { return add(p.Nodes.Addr(), 1) }

// Node is the address of node i, counted from 1.
func (p Plan) Node(i int) netip.Addr { return add(p.Nodes.Addr(), 10+i) }

// PodsOf is the network of the Pods of node i.
func (p Plan) PodsOf(i int) netip.Prefix { return netip.PrefixFrom(add(p.Pods.Addr(), i<<8), 24) }

// APIService is the address of the Service "kubernetes".
func (p Plan) APIService() netip.Addr { return add(p.Services.Addr(), 1) }

// DNS is the address of the Service of the cluster's DNS.
func (p Plan) DNS() netip.Addr { return add(p.Services.Addr(), 10) }

// Loopback is an address for what only the control plane itself may reach. It
// differs from cluster to cluster, so that their ports cannot collide.
func (p Plan) Loopback() netip.Addr {
	b := p.Host().As4()
	b[0] = 127
	return netip.AddrFrom4(b)
}

// onHost is the given address with the length of the node network.
func (p Plan) onHost(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, p.Nodes.Bits()) }

func add(a netip.Addr, n int) netip.Addr {
	b := a.As4()
	binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+uint32(n))
	return netip.AddrFrom4(b)
}
