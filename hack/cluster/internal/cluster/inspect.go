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
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"

	"golang.org/x/sys/unix"

	"github.com/mcptask/mcptask/hack/cluster/internal/process"
)

// Status writes a table of what runs, and returns an error for a cluster that
// is not up.
func (c *Cluster) Status(ctx context.Context, out io.Writer) error {
	s, err := c.loadState()
	if err != nil {
		return err
	}
	inits, err := process.Of(c.Name)
	if err != nil {
		return err
	}
	health := "healthy"
	if err := errors.Join(c.allRunning(s), c.healthy(ctx, s)); err != nil {
		health = "not healthy: " + strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	fmt.Fprintf(out, "cluster %s: %s\nAPI server %s, nodes %s, Pods %s, Services %s\n\n", c.Name, health, s.url(), s.Network.Nodes, s.Network.Pods, s.Network.Services)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ROLE\tSTATE\tCOMPONENT\tPIDS\tMEMORY")
	var total uint64
	for _, role := range s.roles() {
		i, ok := inits[role]
		switch {
		case ok:
			total += writeRole(table, i)
		case s.isStopped(role):
			fmt.Fprintf(table, "%s\tstopped\t\t\t\n", role)
		default:
			fmt.Fprintf(table, "%s\tdead\t\t\t\n", role)
		}
	}
	fmt.Fprintf(table, "\t\ttotal\t\t%s\n", mebibytes(total))
	return table.Flush()
}

// writeRole writes one line for each program of a role and returns their memory.
func writeRole(table io.Writer, i process.Init) uint64 {
	processes, err := i.Inside()
	if err != nil {
		fmt.Fprintf(table, "%s\tending\t\t\t\n", i.Role)
		return 0
	}
	type line struct {
		pids   []string
		memory uint64
	}
	lines := map[string]*line{}
	var names []string
	var total uint64
	for _, p := range processes {
		name := p.Name
		if p.PID == i.PID {
			name = "init"
		}
		if lines[name] == nil {
			lines[name] = &line{}
			names = append(names, name)
		}
		memory := p.Memory()
		lines[name].pids = append(lines[name].pids, strconv.Itoa(p.PID))
		lines[name].memory += memory
		total += memory
	}
	slices.SortStableFunc(names, func(a, b string) int { return int(lines[b].memory>>10) - int(lines[a].memory>>10) })
	for _, name := range names {
		l := lines[name]
		pids := strings.Join(l.pids[:min(3, len(l.pids))], ",")
		if more := len(l.pids) - 3; more > 0 {
			pids += fmt.Sprintf(" and %d more", more)
		}
		fmt.Fprintf(table, "%s\trunning\t%s\t%s\t%s\n", i.Role, name, pids, mebibytes(l.memory))
	}
	return total
}

func mebibytes(n uint64) string { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }

// Signal sends a signal to a component of a role, given as ROLE/COMPONENT. Its
// role starts it again if that ends it.
func (c *Cluster) Signal(target, signal string) error {
	role, component, i, err := c.find(target)
	if err != nil {
		return err
	}
	number, err := parseSignal(signal)
	if err != nil {
		return err
	}
	processes, err := i.Inside()
	if err != nil {
		return err
	}
	var names []string
	hit := 0
	for _, p := range processes {
		if p.PID == i.PID {
			continue
		}
		if p.Name != component {
			if !slices.Contains(names, p.Name) {
				names = append(names, p.Name)
			}
			continue
		}
		if err := syscall.Kill(p.PID, number); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("signal %s (pid %d): %w", target, p.PID, err)
		}
		c.report.Linef("sent %s to %s of %s (pid %d)", unix.SignalName(number), component, role, p.PID)
		hit++
	}
	if hit == 0 {
		return fmt.Errorf("%s runs no %s; it runs %s", role, component, strings.Join(names, ", "))
	}
	return nil
}

// parseSignal reads 9, KILL or SIGKILL.
func parseSignal(s string) (syscall.Signal, error) {
	if n, err := strconv.Atoi(s); err == nil && n > 0 && n < 65 {
		return syscall.Signal(n), nil
	}
	if n := unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(s), "SIG")); n != 0 {
		return n, nil
	}
	return 0, fmt.Errorf("%q is no signal", s)
}

// find reads ROLE/COMPONENT and returns the role's first process.
func (c *Cluster) find(target string) (role, component string, i process.Init, err error) {
	role, component, ok := strings.Cut(target, "/")
	if !ok || component == "" {
		return "", "", i, fmt.Errorf("%q is not ROLE/COMPONENT, such as node1/kubelet", target)
	}
	s, err := c.loadState()
	if err != nil {
		return "", "", i, err
	}
	if err := c.checkRole(s, role); err != nil {
		return "", "", i, err
	}
	i, err = c.running(role)
	return role, component, i, err
}

// Exec runs a command inside a role and returns its error. The cluster's own
// programs are in its PATH.
func (c *Cluster) Exec(ctx context.Context, role string, command []string) error {
	s, err := c.loadState()
	if err != nil {
		return err
	}
	if err := c.checkRole(s, role); err != nil {
		return err
	}
	i, err := c.running(role)
	if err != nil {
		return err
	}
	cmd := enter(ctx, i, command...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "PATH="+s.Tree.Containerd()+":"+s.Tree.Kubernetes()+":"+os.Getenv("PATH"))
	return cmd.Run()
}

// Logs writes the log of a component, given as ROLE/COMPONENT, and goes on with
// what is added if asked to follow. The role's own log is that of "init".
func (c *Cluster) Logs(ctx context.Context, target string, follow bool) error {
	role, component, ok := strings.Cut(target, "/")
	file := c.logFile(role, component)
	if _, err := os.Stat(file); !ok || err != nil {
		logs, err := filepath.Glob(c.logFile("*", "*"))
		if err != nil || logs == nil {
			return fmt.Errorf("cluster %s %w", c.Name, errNotUp)
		}
		for n, l := range logs {
			logs[n] = filepath.Base(filepath.Dir(filepath.Dir(l))) + "/" + strings.TrimSuffix(filepath.Base(l), ".log")
		}
		return fmt.Errorf("no log %q; there are %s", target, strings.Join(logs, ", "))
	}
	args := []string{"--lines=+1"}
	if follow {
		args = append(args, "--follow=name")
	}
	cmd := exec.CommandContext(ctx, "tail", append(args, file)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}
