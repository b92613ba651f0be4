package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/mcptask/mcptask/hack/cluster/internal/build"
	"github.com/mcptask/mcptask/hack/cluster/internal/host"
	"github.com/mcptask/mcptask/hack/cluster/internal/network"
	"github.com/mcptask/mcptask/hack/cluster/internal/process"
)

const (
	// readyPatience is how long a role may take to be fit for use.
	readyPatience = 2 * time.Minute
	// recoveryPatience is how long a cluster whose roles all run may take to be
	// healthy again, after a component was killed for example.
	recoveryPatience = 30 * time.Second
)

// Options are what somebody asks of a cluster. Zero values leave the choice to
// the tool.
type Options struct {
	Nodes    int // -1: one, or as many as the cluster that runs has
	Networks network.Override
	APIPort  uint16
}

// Up makes the cluster run and waits until it is fit for use. A healthy one is
// left as it is; the rest of a broken one is removed first. The programs are
// built only when the cluster has to be started.
func (c *Cluster) Up(ctx context.Context, o Options, builder *build.Builder) error {
	if err := host.CheckArchitecture(); err != nil {
		return err
	}
	if err := host.CheckRoot(); err != nil {
		return err
	}
	unlock, err := c.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	done, err := c.keep(ctx, o)
	if done || err != nil {
		return err
	}
	if err := c.remove(ctx); err != nil {
		return err
	}
	tree, err := builder.Ensure(ctx, build.Cluster()...)
	if err != nil {
		return err
	}
	if err := host.Ensure(ctx, c.report, host.RunPackages); err != nil {
		return err
	}
	s, err := c.plan(o, tree)
	if err != nil {
		return err
	}
	if err := c.create(ctx, s); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted; what was started of cluster %s is still there, down removes it", c.Name)
		}
		return fmt.Errorf("%w\nthe cluster is left as it is, with its logs in %s; down removes it", err, c.dir)
	}
	return nil
}

// keep tells whether the cluster that is there will do.
func (c *Cluster) keep(ctx context.Context, o Options) (bool, error) {
	s, err := c.loadState()
	if errors.Is(err, errNotUp) {
		return false, nil
	}
	if err != nil {
		c.report.Linef("%v; starting anew", err)
		return false, nil
	}
	if err := c.allRunning(s); err != nil {
		c.report.Linef("cluster %s is broken: %v; starting anew", c.Name, err)
		return false, nil
	}
	if err := o.agrees(s); err != nil {
		return false, fmt.Errorf("cluster %s runs already, but %w; run down first", c.Name, err)
	}
	for _, role := range s.Stopped {
		if err := c.powerOn(ctx, s, role); err != nil {
			return false, err
		}
	}
	err = waitFor(ctx, "its recovery", recoveryPatience, func(ctx context.Context) error { return c.healthy(ctx, s) })
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if err != nil {
		c.report.Linef("cluster %s is broken: %v; starting anew", c.Name, err)
		return false, nil
	}
	c.report.Linef("cluster %s is up already", c.Name)
	return true, nil
}

// agrees tells what somebody asked for that a running cluster is not.
func (o Options) agrees(s *state) error {
	if o.Nodes >= 0 && o.Nodes != s.Nodes {
		return fmt.Errorf("with %d nodes instead of %d", s.Nodes, o.Nodes)
	}
	if o.APIPort != 0 && o.APIPort != s.Ports.API {
		return fmt.Errorf("with its API server on port %d instead of %d", s.Ports.API, o.APIPort)
	}
	for _, n := range []struct {
		what        string
		asked, have netip.Prefix
	}{{"nodes", o.Networks.Nodes, s.Network.Nodes}, {"Pods", o.Networks.Pods, s.Network.Pods}, {"Services", o.Networks.Services, s.Network.Services}} {
		if n.asked.IsValid() && n.asked != n.have {
			return fmt.Errorf("with its %s in %s instead of %s", n.what, n.have, n.asked)
		}
	}
	return nil
}

// allRunning tells what is missing from a cluster that came up once.
func (c *Cluster) allRunning(s *state) error {
	if !s.Complete {
		return errors.New("up did not come to its end")
	}
	running, err := process.Of(c.Name)
	if err != nil {
		return err
	}
	for _, role := range s.roles() {
		if _, ok := running[role]; !ok && !s.isStopped(role) {
			return fmt.Errorf("%s is not running", role)
		}
	}
	return nil
}

// healthy is nil for a cluster that is fit for use.
func (c *Cluster) healthy(ctx context.Context, s *state) error {
	api, err := c.client(s)
	if err != nil {
		return err
	}
	if err := api.ready(ctx); err != nil {
		return err
	}
	for i := range s.Nodes {
		if err := api.nodeReady(ctx, nodeName(i+1), time.Time{}); err != nil {
			return err
		}
	}
	if s.Nodes == 0 {
		return nil
	}
	return lookup(ctx, s)
}

// plan chooses addresses and ports for a new cluster.
func (c *Cluster) plan(o Options, tree build.Tree) (*state, error) {
	if o.Nodes > network.MaxNodes {
		return nil, fmt.Errorf("--nodes %d: a cluster has at most %d", o.Nodes, network.MaxNodes)
	}
	s := &state{Nodes: o.Nodes, Tree: tree}
	if o.Nodes < 0 {
		s.Nodes = 1
	}
	taken, err := network.InUse()
	if err != nil {
		return nil, err
	}
	if s.Network, err = network.Allot(c.Name, taken, o.Networks); err != nil {
		return nil, err
	}
	if o.APIPort != 0 {
		s.Ports.API = o.APIPort
		if err := network.CheckPort(s.Network.Host(), o.APIPort); err != nil {
			return nil, fmt.Errorf("--port: %w", err)
		}
	} else if s.Ports.API, err = network.FreePort(s.Network.Host(), 6443); err != nil {
		return nil, fmt.Errorf("choose a port for the API server: %w; choose one with --port", err)
	}
	loopback := s.Network.Loopback()
	for _, p := range []struct {
		port *uint16
		from uint16
	}{{&s.Ports.Etcd, 2379}, {&s.Ports.EtcdPeer, 12380}, {&s.Ports.ControllerManager, 10257}, {&s.Ports.Scheduler, 20259}} {
		if *p.port, err = network.FreePort(loopback, p.from); err != nil {
			return nil, fmt.Errorf("choose a port for the control plane: %w", err)
		}
	}
	return s, nil
}

// create starts a new cluster. Its state is saved before anything is made.
func (c *Cluster) create(ctx context.Context, s *state) error {
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return fmt.Errorf("make the cluster's folder: %w", err)
	}
	if err := c.saveState(s); err != nil {
		return err
	}
	if s.Nodes > 0 {
		if err := host.CheckOverlay(c.dir); err != nil {
			return err
		}
	}
	if err := c.writeCredentials(s); err != nil {
		return err
	}
	for i := 1; i <= s.Nodes; i++ {
		if err := c.writeNodeConfig(s, i); err != nil {
			return err
		}
	}
	if err := network.CreateBridge(c.Name, s.Network); err != nil {
		return err
	}
	c.report.Linef("starting cluster %s on %s", c.Name, s.Network.Nodes)
	began := time.Now()
	for _, role := range s.roles() {
		if err := c.startRole(s, role); err != nil {
			return err
		}
	}
	if err := c.settle(ctx, s, began); err != nil {
		return err
	}
	s.Complete = true
	return c.saveState(s)
}

// settle waits until the cluster that was started is fit for use, and gives it
// its DNS. Images come first: a kubelet that misses one waits long before it
// looks again.
func (c *Cluster) settle(ctx context.Context, s *state, began time.Time) error {
	var steps []func() error
	steps = append(steps, func() error { return c.waitForRole(ctx, s, controlPlane, began) })
	for i := range s.Nodes {
		steps = append(steps, func() error { return c.loadImages(ctx, s, nodeName(i+1), s.Tree.Images()) })
	}
	if err := together(steps); err != nil {
		return err
	}
	c.report.Linef("control plane ready")
	if s.Nodes == 0 {
		return nil
	}
	steps = []func() error{func() error { return c.applyDNS(ctx, s) }}
	for i := range s.Nodes {
		steps = append(steps, func() error { return c.waitForRole(ctx, s, nodeName(i+1), began) })
	}
	if err := together(steps); err != nil {
		return err
	}
	c.report.Linef("%d of %d nodes ready", s.Nodes, s.Nodes)
	if err := waitFor(ctx, "cluster DNS", readyPatience, func(ctx context.Context) error { return lookup(ctx, s) }); err != nil {
		return err
	}
	c.report.Linef("cluster DNS answers")
	return nil
}

// together runs functions at once and returns all their errors.
func together(functions []func() error) error {
	var wg sync.WaitGroup
	errs := make([]error, len(functions))
	for i, f := range functions {
		wg.Go(func() { errs[i] = f() })
	}
	wg.Wait()
	return errors.Join(errs...)
}
