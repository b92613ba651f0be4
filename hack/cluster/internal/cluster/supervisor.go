package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// restartDelay is how long a component that has ended stays ended.
const restartDelay = time.Second

// proceed is what the parent says on standard input when the network is there.
const proceed = "proceed"

// RunInit is PID 1 of a role: it makes the role's mounts, waits for its network,
// starts its components in order, starts again those that end, and reaps. It
// returns when it is told to end, or when its parent dies before it said to
// proceed.
func (c *Cluster) RunInit(ctx context.Context, role string) error {
	if os.Getpid() != 1 {
		return errors.New("init is for the first process of a role; to start one, use up or start")
	}
	s, err := c.loadState()
	if err != nil {
		return err
	}
	if err := c.isolate(role); err != nil {
		return err
	}
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil || line != proceed+"\n" {
		return fmt.Errorf("the command that started %s has ended before its network was there", role)
	}
	components, err := c.components(s, role)
	if err != nil {
		return err
	}
	v := &supervisor{
		running: map[int]component{},
		logFile: func(name string) string { return c.logFile(role, name) },
		// The distribution's own containerd shim must not come first.
		path: "PATH=" + s.Tree.Containerd() + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	}
	return v.run(ctx, components)
}

// supervisor runs components. The lock is held while a process is started and
// while ended ones are collected, so that none is collected unknown.
type supervisor struct {
	mu      sync.Mutex
	running map[int]component
	logFile func(component string) string
	path    string
}

func (v *supervisor) run(ctx context.Context, components []component) error {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	failed := make(chan error, 1)
	go func() {
		if err := v.startAll(ctx, components); err != nil {
			failed <- err
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case <-ended:
			for _, c := range v.reap() {
				time.AfterFunc(restartDelay, func() {
					if err := v.start(c); err != nil {
						failed <- err
					}
				})
			}
		}
	}
}

func (v *supervisor) startAll(ctx context.Context, components []component) error {
	for _, c := range components {
		if err := v.start(c); err != nil {
			return err
		}
		if c.ready == nil {
			continue
		}
		// Not ready in time is no reason to give up: it may still come, and who waits for the cluster is told.
		if err := waitFor(ctx, c.name, startPatience, c.ready); err != nil {
			logf("%v", err)
		}
	}
	return nil
}

func (v *supervisor) start(c component) error {
	name := v.logFile(c.name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	out, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	defer out.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	defer null.Close()
	v.mu.Lock()
	defer v.mu.Unlock()
	pid, err := syscall.ForkExec(c.program, append([]string{c.program}, c.args...), &syscall.ProcAttr{
		Dir: "/", Env: []string{"HOME=/root", v.path}, Files: []uintptr{null.Fd(), out.Fd(), out.Fd()},
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", c.program, err)
	}
	v.running[pid] = c
	logf("started %s (pid %d of this namespace)", c.name, pid)
	return nil
}

// reap collects ended processes and returns those that were components.
func (v *supervisor) reap() []component {
	v.mu.Lock()
	defer v.mu.Unlock()
	var ended []component
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if pid <= 0 || err != nil {
			return ended
		}
		c, ok := v.running[pid]
		if !ok {
			continue
		}
		delete(v.running, pid)
		if status.Signaled() {
			logf("%s was ended by signal %d (%s)", c.name, status.Signal(), status.Signal())
		} else {
			logf("%s ended with exit code %d", c.name, status.ExitStatus())
		}
		ended = append(ended, c)
	}
}

// logf writes to the log of the role itself.
func logf(format string, args ...any) {
	fmt.Printf("%s %s\n", time.Now().Format(time.RFC3339Nano), fmt.Sprintf(format, args...))
}
