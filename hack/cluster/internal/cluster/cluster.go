// Package cluster runs a real Kubernetes on one Linux machine from plain
// programs, with no container engine, no systemd and no image registry.
//
// The control plane runs in a PID and a mount namespace on the machine's own
// network. Each node runs in PID, mount, network, UTS and IPC namespaces of its
// own, with its own /run and /var. PID 1 of each is this program ("init"): when
// it ends, the kernel ends all that runs there, and the mounts, interfaces and
// packet filter rules go with it. Nodes have no default route: nothing in a
// cluster reaches beyond the machine.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/mcptask/mcptask/hack/cluster/internal/cache"
	"github.com/mcptask/mcptask/hack/cluster/internal/network"
	"github.com/mcptask/mcptask/hack/cluster/internal/progress"
)

// DefaultName is the cluster that commands mean unless told otherwise.
const DefaultName = "mcptask"

// controlPlane is the role of the control plane; the others are node1, node2...
const controlPlane = "cp"

// poll is how often a condition is looked at again.
const poll = 50 * time.Millisecond

// namePattern keeps names fit for host names, control groups and interfaces.
var namePattern = regexp.MustCompile(`^[a-z][a-z0-9-]{0,29}$`)

// Cluster is a cluster by its name; it may run or not.
type Cluster struct {
	Name   string
	root   string // the cache folder
	dir    string // of this cluster, below root
	report *progress.Reporter
}

// New names a cluster whose files are below the cache folder root.
func New(root, name string, report *progress.Reporter) (*Cluster, error) {
	if !namePattern.MatchString(name) {
		return nil, fmt.Errorf("%q is not a cluster name: want a lower-case letter, then at most 29 lower-case letters, digits and hyphens", name)
	}
	return &Cluster{Name: name, root: root, dir: filepath.Join(cache.Clusters(root), name), report: report}, nil
}

// Kubeconfig is the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.dir, "kubeconfig") }

func (c *Cluster) pki() string { return filepath.Join(c.dir, "pki") }

func (c *Cluster) roleDir(role string) string { return filepath.Join(c.dir, role) }

// logFile is where a component of a role writes to.
func (c *Cluster) logFile(role, component string) string {
	return filepath.Join(c.roleDir(role), "log", component+".log")
}

// cgroup is the name of the control group that all of the cluster runs below.
func (c *Cluster) cgroup() string { return "cluster-" + c.Name }

// lock keeps two commands from changing one cluster at once.
func (c *Cluster) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(c.dir), 0o755); err != nil {
		return nil, fmt.Errorf("lock cluster %s: %w", c.Name, err)
	}
	lock := flock.New(c.dir + ".lock")
	if ok, err := lock.TryLock(); err != nil {
		return nil, fmt.Errorf("lock cluster %s: %w", c.Name, err)
	} else if !ok {
		c.report.Linef("waiting for another command on cluster %s to end", c.Name)
		if _, err := lock.TryLockContext(ctx, poll); err != nil {
			return nil, fmt.Errorf("wait for another command on cluster %s: %w", c.Name, err)
		}
	}
	return func() { _ = lock.Close() }, nil // the lock ends with the file
}

func nodeName(i int) string { return "node" + strconv.Itoa(i) }

// nodeIndex is the number of a node, from 1, or 0 for what is no node's name.
func nodeIndex(role string) int {
	digits, ok := strings.CutPrefix(role, "node")
	i, err := strconv.Atoi(digits)
	if !ok || err != nil || i < 1 || i > network.MaxNodes || nodeName(i) != role {
		return 0
	}
	return i
}

// waitFor looks at a condition until it holds, its time is over, or it says
// itself that it never will. The error of the last look says why not.
func waitFor(ctx context.Context, what string, patience time.Duration, condition func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var last error
	for {
		err := condition(ctx)
		var hopeless *hopelessError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &hopeless):
			return fmt.Errorf("%s: %w", what, hopeless.cause)
		case ctx.Err() == nil:
			last = err
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return fmt.Errorf("%s: not within %s: %w", what, patience, last)
		case <-time.After(poll):
		}
	}
}

// hopelessError ends the wait for a condition early.
type hopelessError struct{ cause error }

func (e *hopelessError) Error() string { return e.cause.Error() }
