package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParseMounts(t *testing.T) {
	const both = `25 22 0:22 / /sys rw,nosuid - sysfs sysfs rw
30 25 0:26 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
33 30 0:29 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
34 30 0:29 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
`
	const pure = "35 25 0:30 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	for _, c := range []struct {
		mounts string
		want   []Hierarchy
	}{
		{both, []Hierarchy{{"/sys/fs/cgroup/cpu,cpuacct", false}, {"/sys/fs/cgroup/memory", false}, {"/sys/fs/cgroup/unified", true}}},
		{pure, []Hierarchy{{"/sys/fs/cgroup", true}}},
		{"", nil},
		{"a line that is none\n", nil},
	} {
		if got, err := parseMounts(strings.NewReader(c.mounts)); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("got %v, %v; want %v", got, err, c.want)
		}
	}
}

// fake is a folder that looks like a hierarchy.
func fake(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func read(t *testing.T, name ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(name...))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestVersion1(t *testing.T) {
	cpuset := fake(t, map[string]string{"cpuset.cpus": "0-1", "cpuset.mems": "0"})
	memory := fake(t, nil)
	hierarchies := []Hierarchy{{Path: cpuset}, {Path: memory}}
	for range 2 { // groups that are there are kept
		if err := Create(hierarchies, "cluster-a", "node1"); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(t, cpuset, "cluster-a/node1/cpuset.cpus"); got != "0-1" {
		t.Errorf("node1 has the processors %q", got)
	}
	if !Exists(hierarchies, "cluster-a", "node1") || Exists(hierarchies, "cluster-b") {
		t.Error("Exists is wrong")
	}
	if err := Enter(hierarchies, 42, "cluster-a", "node1"); err != nil {
		t.Fatal(err)
	}
	if got := read(t, memory, "cluster-a/node1/cgroup.procs"); got != "42" {
		t.Errorf("node1 has the processes %q", got)
	}
}

func TestVersion2(t *testing.T) {
	root := fake(t, map[string]string{"cgroup.controllers": "cpu memory rdma", "cgroup.subtree_control": "memory"})
	// A new group has these files from the kernel.
	group := filepath.Join(root, "cluster-a")
	if err := os.Mkdir(group, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"cgroup.controllers": "memory", "cgroup.subtree_control": ""} {
		if err := os.WriteFile(filepath.Join(group, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := Create([]Hierarchy{{root, true}}, "cluster-a", "programs"); err != nil {
		t.Fatal(err)
	}
	if got := read(t, root, "cgroup.subtree_control"); got != "+cpu" {
		t.Errorf("the root was told %q; memory is on already and rdma not wanted", got)
	}
	if got := read(t, group, "cgroup.subtree_control"); got != "+memory" {
		t.Errorf("the group was told %q", got)
	}
	// A group with controllers handed on could not hold processes.
	if left, err := filepath.Glob(filepath.Join(group, "programs", "*")); err != nil || left != nil {
		t.Errorf("the last group has %v, %v", left, err)
	}
}

func TestRemove(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "cluster-a/node1/kubepods/besteffort"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "cluster-b"), 0o700); err != nil {
		t.Fatal(err)
	}
	hierarchies := []Hierarchy{{Path: root}, {Path: t.TempDir()}}
	for range 2 { // what is gone is no error
		if err := Remove(hierarchies, "cluster-a", "node1"); err != nil {
			t.Fatal(err)
		}
	}
	if !Exists(hierarchies, "cluster-a") || Exists(hierarchies, "cluster-a", "node1") || !Exists(hierarchies, "cluster-b") {
		t.Error("removed too much or too little")
	}
}
