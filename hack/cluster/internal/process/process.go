// Package process finds the processes of clusters. Nothing about them is kept
// in files: the kernel's own list is always right, also after a crash.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Marker is the name that the first process of every role runs under.
const Marker = "mcptask-cluster"

// Init is the first process of a role: PID 1 of the namespaces that all else of
// the role runs in. When it ends, the kernel ends everything in them.
type Init struct {
	PID     int
	Cluster string
	Role    string
	Dir     string // of the cluster
}

// Args is the command line of the first process of a role; its first element is
// the name it runs under.
func (i Init) Args() []string {
	return []string{Marker, "init", "--name", i.Cluster, "--role", i.Role, "--dir", i.Dir}
}

// parseInit is the reverse of Args.
func parseInit(pid int, args []string) (Init, bool) {
	if len(args) != 8 || args[0] != Marker || args[1] != "init" {
		return Init{}, false
	}
	i := Init{PID: pid, Cluster: args[3], Role: args[5], Dir: args[7]}
	return i, slices.Equal(i.Args(), args)
}

// Inits are the first processes of all roles of all clusters of this machine.
func Inits() ([]Init, error) {
	pids, err := all()
	if err != nil {
		return nil, err
	}
	var found []Init
	for _, pid := range pids {
		if i, ok := parseInit(pid, args(pid)); ok && isNamespaceLeader(pid) {
			found = append(found, i)
		}
	}
	return found, nil
}

// Of are the first processes of one cluster's roles, by role.
func Of(cluster string) (map[string]Init, error) {
	inits, err := Inits()
	if err != nil {
		return nil, err
	}
	roles := map[string]Init{}
	for _, i := range inits {
		if i.Cluster == cluster {
			roles[i.Role] = i
		}
	}
	return roles, nil
}

// Kill ends a role with all that runs in it, and returns when it is gone.
func (i Init) Kill(ctx context.Context) error {
	fd, err := unix.PidfdOpen(i.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("end %s of cluster %s (pid %d): %w", i.Role, i.Cluster, i.PID, err)
	}
	defer unix.Close(fd)
	// Now the number cannot be given to another process unnoticed.
	if again, ok := parseInit(i.PID, args(i.PID)); !ok || again != i {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("end %s of cluster %s (pid %d): %w", i.Role, i.Cluster, i.PID, err)
	}
	for ctx.Err() == nil {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if n, err := unix.Poll(poll, int((100 * time.Millisecond).Milliseconds())); n > 0 && err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s of cluster %s (pid %d) does not end: %w", i.Role, i.Cluster, i.PID, ctx.Err())
}

// Process is a process inside a role.
type Process struct {
	PID  int
	Name string // of its program's file
}

// Inside lists the processes of a role, the first one included.
func (i Init) Inside() ([]Process, error) {
	want, err := os.Readlink(procFile(i.PID, "ns/pid"))
	if err != nil {
		return nil, fmt.Errorf("%s of cluster %s has ended: %w", i.Role, i.Cluster, err)
	}
	pids, err := all()
	if err != nil {
		return nil, err
	}
	var found []Process
	for _, pid := range pids {
		if ns, err := os.Readlink(procFile(pid, "ns/pid")); err != nil || ns != want {
			continue
		}
		if a := args(pid); a != nil {
			found = append(found, Process{PID: pid, Name: filepath.Base(a[0])})
		}
	}
	return found, nil
}

// Memory is a process's share of the machine's memory in bytes: what it has
// alone, and its part of what it shares.
func (p Process) Memory() uint64 {
	content, err := os.ReadFile(procFile(p.PID, "smaps_rollup"))
	if err != nil {
		return 0 // it has ended
	}
	return parsePSS(content)
}

func parsePSS(rollup []byte) uint64 {
	for line := range strings.Lines(string(rollup)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == "Pss:" {
			kib, err := strconv.ParseUint(fields[1], 10, 64)
			if err != nil {
				return 0
			}
			return kib << 10
		}
	}
	return 0
}

// all lists the numbers of all processes.
func all() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// args is a process's command line, or nil if it has ended or is of the kernel.
func args(pid int) []string {
	content, err := os.ReadFile(procFile(pid, "cmdline"))
	if err != nil || len(content) == 0 {
		return nil
	}
	return strings.Split(string(bytes.TrimSuffix(content, []byte{0})), "\x00")
}

// isNamespaceLeader tells whether a process is PID 1 of a namespace below ours.
func isNamespaceLeader(pid int) bool {
	content, err := os.ReadFile(procFile(pid, "status"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(content)) {
		if numbers, ok := strings.CutPrefix(line, "NSpid:"); ok {
			fields := strings.Fields(numbers)
			return len(fields) > 1 && fields[len(fields)-1] == "1"
		}
	}
	return false
}

func procFile(pid int, name string) string {
	return filepath.Join("/proc", strconv.Itoa(pid), name)
}
