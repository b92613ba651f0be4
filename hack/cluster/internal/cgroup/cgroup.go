// Package cgroup makes and removes the control groups that a cluster's Pods run
// below, on machines with version 1, with version 2, and with both.
package cgroup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// removePatience is how long the kernel may hold a group of ended processes.
const removePatience = 10 * time.Second

// controllers are those that the kubelet wants for its Pods in version 2.
var controllers = []string{"cpu", "cpuset", "memory", "pids", "io", "hugetlb"}

// Hierarchy is one mounted tree of control groups.
type Hierarchy struct {
	Path    string
	Unified bool // version 2
}

// Hierarchies are the trees that are mounted on this machine.
func Hierarchies() ([]Hierarchy, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list control groups: %w", err)
	}
	defer f.Close()
	found, err := parseMounts(f)
	if err != nil {
		return nil, fmt.Errorf("list control groups: %w", err)
	}
	if len(found) == 0 {
		return nil, errors.New("no control groups are mounted on this machine (/sys/fs/cgroup): the kubelet needs them")
	}
	return found, nil
}

// parseMounts reads the format of proc_pid_mountinfo(5).
func parseMounts(r io.Reader) ([]Hierarchy, error) {
	content, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var found []Hierarchy
	for line := range strings.Lines(string(content)) {
		before, after, ok := strings.Cut(line, " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(kind) < 1 || !strings.HasPrefix(kind[0], "cgroup") {
			continue
		}
		h := Hierarchy{Path: fields[4], Unified: kind[0] == "cgroup2"}
		if !slices.Contains(found, h) {
			found = append(found, h)
		}
	}
	return found, nil
}

// Create makes the group PATH[0]/PATH[1]/... in every hierarchy, able to hold
// processes or further groups. Groups that are there already are kept.
func Create(hierarchies []Hierarchy, path ...string) error {
	for _, h := range hierarchies {
		parent := h.Path
		for _, name := range path {
			group := filepath.Join(parent, name)
			if err := h.create(parent, group); err != nil {
				return fmt.Errorf("make the control group %s: %w", group, err)
			}
			parent = group
		}
	}
	return nil
}

func (h Hierarchy) create(parent, group string) error {
	if h.Unified {
		if err := enableControllers(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(group, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if h.Unified {
		return nil
	}
	// A new group of version 1 has no processors and no memory nodes.
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(parent, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue // not the cpuset hierarchy
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(group, file), value, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// enableControllers hands a group's controllers on to the groups below it.
func enableControllers(group string) error {
	available, err := os.ReadFile(filepath.Join(group, "cgroup.controllers"))
	if err != nil {
		return err
	}
	file := filepath.Join(group, "cgroup.subtree_control")
	enabled, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for _, c := range strings.Fields(string(available)) {
		if !slices.Contains(controllers, c) || slices.Contains(strings.Fields(string(enabled)), c) {
			continue
		}
		if err := os.WriteFile(file, []byte("+"+c), 0o644); err != nil {
			return fmt.Errorf("hand on the controller %s: %w", c, err)
		}
	}
	return nil
}

// Enter moves a process into a group that Create has made.
func Enter(hierarchies []Hierarchy, pid int, path ...string) error {
	for _, h := range hierarchies {
		file := filepath.Join(h.Path, filepath.Join(path...), "cgroup.procs")
		if err := os.WriteFile(file, []byte(strconv.Itoa(pid)), 0o644); err != nil {
			return fmt.Errorf("move a process into its control group: %w", err)
		}
	}
	return nil
}

// Exists tells whether a group is there in any hierarchy.
func Exists(hierarchies []Hierarchy, path ...string) bool {
	return slices.ContainsFunc(hierarchies, func(h Hierarchy) bool {
		_, err := os.Stat(filepath.Join(h.Path, filepath.Join(path...)))
		return err == nil
	})
}

// Remove removes a group and all below it from every hierarchy. Its processes
// must have been ended.
func Remove(hierarchies []Hierarchy, path ...string) error {
	for _, h := range hierarchies {
		group := filepath.Join(h.Path, filepath.Join(path...))
		end := time.Now().Add(removePatience)
		for {
			err := removeTree(group)
			if err == nil {
				break
			}
			if time.Now().After(end) {
				return fmt.Errorf("remove a control group: %w", err)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	return nil
}

// removeTree removes groups from the leaves up. The files in a group are the
// kernel's and go with it.
func removeTree(group string) error {
	entries, err := os.ReadDir(group)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if e.IsDir() {
			errs = append(errs, removeTree(filepath.Join(group, e.Name())))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := os.Remove(group); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
