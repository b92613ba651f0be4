package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mcptask/mcptask/hack/cluster/internal/cgroup"
	"github.com/mcptask/mcptask/hack/cluster/internal/network"
	"github.com/mcptask/mcptask/hack/cluster/internal/process"
)

// killPatience is how long the kernel may take to end all of a role.
const killPatience = 30 * time.Second

// programs is the control group of the cluster's own programs. The groups
// beside it have the names of nodes and hold their Pods.
const programs = "programs"

// namespaces are what a role has of its own. The control plane stays on the
// machine's network, where kubectl and tests reach it.
func namespaces(role string) uintptr {
	if role == controlPlane {
		return syscall.CLONE_NEWPID | syscall.CLONE_NEWNS
	}
	return syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC
}

// startRole starts the first process of a role and gives it its network.
func (c *Cluster) startRole(s *state, role string) error {
	if err := c.spawn(s, role); err != nil {
		return fmt.Errorf("start %s: %w", role, err)
	}
	return nil
}

func (c *Cluster) spawn(s *state, role string) (err error) {
	hierarchies, err := cgroup.Hierarchies()
	if err != nil {
		return err
	}
	if err := cgroup.Create(hierarchies, c.cgroup(), programs); err != nil {
		return err
	}
	// The kubelet loses seconds over groups that are left of before a power-off.
	if err := cgroup.Remove(hierarchies, c.cgroup(), role); err != nil {
		return err
	}
	if err := cgroup.Create(hierarchies, c.cgroup(), role); err != nil {
		return err
	}
	name := c.logFile(role, "init")
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = process.Init{Cluster: c.Name, Role: role, Dir: c.dir}.Args()
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces(role), Setsid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("make namespaces: %w", err)
	}
	// A role that has not been told to proceed ends when its standard input does.
	defer func() { err = errors.Join(err, stdin.Close()) }()
	if err := cgroup.Enter(hierarchies, cmd.Process.Pid, c.cgroup(), programs); err != nil {
		return err
	}
	if i := nodeIndex(role); i > 0 {
		if err := network.Connect(c.Name, s.Network, i, s.Nodes, cmd.Process.Pid); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(stdin, proceed+"\n"); err != nil {
		return fmt.Errorf("it has ended: %s", c.lastLines(role, "init", 1))
	}
	return cmd.Process.Release()
}

// killRole ends a role if it runs.
func (c *Cluster) killRole(ctx context.Context, role string) error {
	running, err := process.Of(c.Name)
	if err != nil {
		return err
	}
	if i, ok := running[role]; ok {
		ctx, cancel := context.WithTimeout(ctx, killPatience)
		defer cancel()
		return i.Kill(ctx)
	}
	return nil
}

// running returns the first process of a role, or an error that says that the
// role is not running.
func (c *Cluster) running(role string) (process.Init, error) {
	inits, err := process.Of(c.Name)
	if err != nil {
		return process.Init{}, err
	}
	i, ok := inits[role]
	if !ok {
		return process.Init{}, fmt.Errorf("%s of cluster %s is not running", role, c.Name)
	}
	return i, nil
}

// Stop powers roles off: all that runs in them ends at once, their disks stay.
func (c *Cluster) Stop(ctx context.Context, roles []string) error {
	return c.eachRole(ctx, roles, func(s *state, role string) error {
		if !s.isStopped(role) {
			s.Stopped = append(s.Stopped, role)
		}
		if err := c.saveState(s); err != nil {
			return err
		}
		if err := c.killRole(ctx, role); err != nil {
			return err
		}
		c.report.Linef("%s is stopped", role)
		return nil
	})
}

// Start powers roles on again and waits until they are fit for use.
func (c *Cluster) Start(ctx context.Context, roles []string) error {
	return c.eachRole(ctx, roles, func(s *state, role string) error { return c.powerOn(ctx, s, role) })
}

func (c *Cluster) powerOn(ctx context.Context, s *state, role string) error {
	began := time.Now()
	if _, err := c.running(role); err == nil {
		c.report.Linef("%s is running already", role)
		return nil
	}
	if err := c.startRole(s, role); err != nil {
		return err
	}
	s.Stopped = slices.DeleteFunc(s.Stopped, func(r string) bool { return r == role })
	if err := c.saveState(s); err != nil {
		return err
	}
	if err := c.waitForRole(ctx, s, role, began); err != nil {
		return err
	}
	c.report.Linef("%s is ready", role)
	return nil
}

func (c *Cluster) eachRole(ctx context.Context, roles []string, do func(*state, string) error) error {
	unlock, err := c.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	s, err := c.loadState()
	if err != nil {
		return err
	}
	for _, role := range roles {
		if err := c.checkRole(s, role); err != nil {
			return err
		}
	}
	for _, role := range roles {
		if err := do(s, role); err != nil {
			return err
		}
	}
	return nil
}

// waitForRole waits until a role that was started at some time is fit for use.
func (c *Cluster) waitForRole(ctx context.Context, s *state, role string, began time.Time) error {
	api, err := c.client(s)
	if err != nil {
		return err
	}
	watched := "kube-apiserver"
	condition := api.ready
	if role != controlPlane {
		watched = "kubelet"
		condition = func(ctx context.Context) error { return api.nodeReady(ctx, role, began) }
	}
	err = waitFor(ctx, role+" ready", readyPatience, func(ctx context.Context) error {
		err := condition(ctx)
		if err == nil {
			return nil
		}
		if _, gone := c.running(role); gone != nil {
			return &hopelessError{fmt.Errorf("it has ended: %s", c.lastLines(role, "init", 1))}
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w\nlast lines of %s/%s:\n%s", err, role, watched, c.lastLines(role, watched, 5))
	}
	return err
}

// lastLines is the end of a component's log.
func (c *Cluster) lastLines(role, component string, n int) string {
	content, err := os.ReadFile(c.logFile(role, component))
	if err != nil {
		return "(no log)"
	}
	lines := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
