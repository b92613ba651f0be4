//go:build cluster

package cluster

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mcptask/mcptask/hack/cluster/internal/cgroup"
	"github.com/mcptask/mcptask/hack/cluster/internal/network"
	"github.com/mcptask/mcptask/hack/cluster/internal/process"
)

// machine is what a cluster could change of its machine.
type machine struct {
	filters  string            // packet filter rules
	settings map[string]string // of /proc/sys
	folders  map[string]bool   // that Kubernetes likes to make
}

// volatile are settings that the kernel changes itself, or that come and go
// with interfaces, which are looked at by name.
var volatile = regexp.MustCompile(`/(random|ns_last_pid|pty|.*-nr|.*-state|conf|neigh|nf_conntrack_count|nf_conntrack_buckets|sched_domain|quota|perf_.*|hung_task_.*)(/|$)`)

var kubernetesFolders = []string{
	"/run/containerd", "/run/netns", "/run/runc", "/run/nri", "/var/lib/containerd", "/var/lib/kubelet", "/var/lib/cni",
	"/var/log/pods", "/var/log/containers", "/etc/cni", "/etc/kubernetes", "/etc/containerd", "/opt/containerd", "/opt/cni", "/opt/nri", "/usr/libexec/kubernetes",
}

func lookAtMachine(t *testing.T) machine {
	t.Helper()
	m := machine{settings: map[string]string{}, folders: map[string]bool{}}
	for _, command := range [][]string{{"nft", "list", "ruleset"}, {"iptables-save"}, {"ip6tables-save"}, {"ip", "rule"}} {
		out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
		m.filters += fmt.Sprintf("%v\n%s%v\n", command, regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(string(out), ""), err)
	}
	err := filepath.WalkDir("/proc/sys", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || volatile.MatchString(name) {
			return nil // what cannot be read does not matter
		}
		if content, err := os.ReadFile(name); err == nil {
			m.settings[name] = string(content)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range kubernetesFolders {
		_, err := os.Stat(folder)
		m.folders[folder] = err == nil
	}
	return m
}

// remains is what was known of a cluster while it ran, to look for afterwards.
type remains struct {
	name, dir string
	plan      network.Plan
	processes []process.Process
}

func remember(t *testing.T, c *Cluster) remains {
	t.Helper()
	s, err := c.loadState()
	if err != nil {
		t.Fatal(err)
	}
	r := remains{name: c.Name, dir: c.dir, plan: s.Network}
	inits, err := process.Of(c.Name)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range inits {
		inside, err := i.Inside()
		if err != nil {
			t.Fatal(err)
		}
		r.processes = append(r.processes, inside...)
	}
	if len(r.processes) == 0 {
		t.Fatalf("cluster %s has no processes to look for afterwards", c.Name)
	}
	return r
}

// checkGone fails for everything that is left of a cluster.
func checkGone(t *testing.T, before machine, r remains) {
	t.Helper()
	inits, err := process.Of(r.name)
	if err != nil || len(inits) > 0 {
		t.Errorf("first processes left: %v %v", inits, err)
	}
	for _, p := range r.processes {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if name, _, _ := strings.Cut(string(content), "\x00"); err == nil && filepath.Base(name) == p.Name {
			t.Errorf("process left: %d %s", p.PID, p.Name)
		}
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), r.dir) {
		t.Errorf("mounts left: %v\n%s", err, mounts)
	}
	if links, err := network.Links(r.name); err != nil || len(links) > 0 {
		t.Errorf("interfaces left: %v %v", links, err)
	}
	taken, err := network.InUse()
	if err != nil {
		t.Error(err)
	}
	for _, used := range taken {
		if used.Prefix.Overlaps(r.plan.Nodes) || used.Prefix.Overlaps(r.plan.Pods) || used.Prefix.Overlaps(r.plan.Services) {
			t.Errorf("route left: %s of %s", used.Prefix, used.By)
		}
	}
	hierarchies, err := cgroup.Hierarchies()
	if err != nil || cgroup.Exists(hierarchies, "cluster-"+r.name) {
		t.Errorf("control groups left: %v", err)
	}
	if _, err := os.Stat(r.dir); err == nil {
		t.Errorf("files left: %s", r.dir)
	}
	after := lookAtMachine(t)
	if after.filters != before.filters {
		t.Errorf("packet filter rules changed from\n%s\nto\n%s", before.filters, after.filters)
	}
	for name, value := range after.settings {
		if old, ok := before.settings[name]; ok && old != value {
			t.Errorf("%s changed from %q to %q", name, old, value)
		}
	}
	for folder, there := range after.folders {
		if there != before.folders[folder] {
			t.Errorf("%s was made", folder)
		}
	}
}
