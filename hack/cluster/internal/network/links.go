package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// InUse lists the networks that this machine has addresses in or routes to.
// A default route is none.
func InUse() ([]Taken, error) {
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	var taken []Taken
	for _, r := range routes {
		p, ok := fromIPNet(r.Dst)
		if !ok || p.Bits() == 0 {
			continue
		}
		by := "a route"
		if link, err := netlink.LinkByIndex(r.LinkIndex); err == nil {
			by = "interface " + link.Attrs().Name
		}
		taken = append(taken, Taken{p, by})
	}
	addresses, err := netlink.AddrList(nil, netlink.FAMILY_V4)
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	for _, a := range addresses {
		if p, ok := fromIPNet(a.IPNet); ok {
			taken = append(taken, Taken{p, "interface " + a.Label})
		}
	}
	return taken, nil
}

// CreateBridge makes the bridge that joins a cluster's nodes and this machine.
// The routes to Pods and Services begin as routes to the bridge itself: nothing
// for them ever leaves this machine.
func CreateBridge(cluster string, plan Plan) error {
	bridge := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs()}
	bridge.Name = bridgeName(cluster)
	if err := netlink.LinkAdd(bridge); err != nil {
		return fmt.Errorf("make the interface %s: %w", bridge.Name, err)
	}
	err := errors.Join(
		addAddress(nil, bridge, plan.onHost(plan.Host())),
		netlink.LinkSetUp(bridge),
		setRoute(nil, bridge, plan.Services, netip.Addr{}),
		setRoute(nil, bridge, plan.Pods, netip.Addr{}),
	)
	if err != nil {
		return fmt.Errorf("set up the interface %s: %w", bridge.Name, err)
	}
	return nil
}

// Connect joins the network namespace of node i of n, which is that of a
// process, to the cluster's bridge, and routes its Pods. Node 1 also gets what
// this machine sends to Services.
func Connect(cluster string, plan Plan, i, n, pid int) error {
	name := linkName(cluster, i)
	if err := connect(cluster, plan, i, n, pid); err != nil {
		return fmt.Errorf("set up the interface %s: %w", name, err)
	}
	return nil
}

func connect(cluster string, plan Plan, i, n, pid int) error {
	if err := remove(linkName(cluster, i)); err != nil { // of before a power-off
		return err
	}
	bridge, err := netlink.LinkByName(bridgeName(cluster))
	if err != nil {
		return err
	}
	link := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "eth0", PeerNamespace: netlink.NsPid(pid)}
	link.Name, link.MasterIndex = linkName(cluster, i), bridge.Attrs().Index
	if err := netlink.LinkAdd(link); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return err
	}
	if err := inside(plan, i, n, pid); err != nil {
		return fmt.Errorf("inside node%d: %w", i, err)
	}
	if err := setRoute(nil, bridge, plan.PodsOf(i), plan.Node(i)); err != nil {
		return err
	}
	if i == 1 {
		return setRoute(nil, bridge, plan.Services, plan.Node(1))
	}
	return nil
}

// inside sets up a node's own interfaces and routes. There is no default route:
// nothing in the cluster reaches beyond this machine. A route to the Services
// must exist before kube-proxy's rules rewrite the address.
func inside(plan Plan, i, n, pid int) error {
	ns, err := netns.GetFromPid(pid)
	if err != nil {
		return err
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		return err
	}
	defer h.Close()
	for _, name := range []string{"lo", "eth0"} {
		link, err := h.LinkByName(name)
		if err != nil {
			return err
		}
		if err := h.LinkSetUp(link); err != nil {
			return err
		}
	}
	eth0, err := h.LinkByName("eth0")
	if err != nil {
		return err
	}
	if err := addAddress(h, eth0, plan.onHost(plan.Node(i))); err != nil {
		return err
	}
	if err := setRoute(h, eth0, plan.Services, netip.Addr{}); err != nil {
		return err
	}
	for j := 1; j <= n; j++ {
		if j == i {
			continue
		}
		if err := setRoute(h, eth0, plan.PodsOf(j), plan.Node(j)); err != nil {
			return err
		}
	}
	return nil
}

// RemoveLinks removes every interface of a cluster, and with them its routes. It
// returns the names of those that were there.
func RemoveLinks(cluster string) ([]string, error) {
	names, err := Links(cluster)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := remove(name); err != nil {
			return nil, fmt.Errorf("remove the interface %s: %w", name, err)
		}
	}
	return names, nil
}

// Links are the names of a cluster's interfaces on this machine.
func Links(cluster string) ([]string, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	var names []string
	for _, l := range links {
		if isOwn(cluster, l.Attrs().Name) {
			names = append(names, l.Attrs().Name)
		}
	}
	return names, nil
}

func remove(name string) error {
	link, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return err
	}
	return netlink.LinkDel(link)
}

// addAddress and setRoute act in this namespace if the handle is nil.
func addAddress(h *netlink.Handle, link netlink.Link, p netip.Prefix) error {
	if h == nil {
		h = &netlink.Handle{}
	}
	return h.AddrAdd(link, &netlink.Addr{IPNet: toIPNet(p)})
}

func setRoute(h *netlink.Handle, link netlink.Link, to netip.Prefix, via netip.Addr) error {
	if h == nil {
		h = &netlink.Handle{}
	}
	route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: toIPNet(to)}
	if via.IsValid() {
		route.Gw = via.AsSlice()
	} else {
		route.Scope = netlink.SCOPE_LINK
	}
	return h.RouteReplace(route)
}

func toIPNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func fromIPNet(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	a, ok := netip.AddrFromSlice(n.IP.To4())
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(a, bits), ok
}
