package cluster

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/mcptask/mcptask/hack/cluster/internal/build"
	"github.com/mcptask/mcptask/hack/cluster/internal/network"
	"github.com/mcptask/mcptask/hack/cluster/internal/progress"
)

func testCluster(t *testing.T) *Cluster {
	t.Helper()
	c, err := New(t.TempDir(), "unit", progress.New(os.Stderr))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return c
}

func testState() *state {
	return &state{
		Complete: true, Nodes: 2, Tree: build.Tree{Dir: "/tree"},
		Network: network.Plan{
			Nodes: netip.MustParsePrefix("172.30.7.0/24"), Pods: netip.MustParsePrefix("10.231.0.0/16"), Services: netip.MustParsePrefix("10.103.0.0/16"),
		},
		Ports:   ports{API: 6443, Etcd: 2379, EtcdPeer: 12380, ControllerManager: 10257, Scheduler: 20259},
		Stopped: []string{"node2"},
	}
}

func TestNames(t *testing.T) {
	for _, name := range []string{"a", "mcptask", "ct-1", strings.Repeat("a", 30)} {
		if _, err := New("/cache", name, nil); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", "-a", "1a", "A", "a_b", "a/b", "..", "a b", strings.Repeat("a", 31)} {
		if _, err := New("/cache", name, nil); err == nil {
			t.Errorf("took the name %q", name)
		}
	}
	for role, want := range map[string]int{"node1": 1, "node64": 64, "node65": 0, "node0": 0, "node01": 0, "node": 0, "cp": 0, "node-1": 0, "": 0} {
		if got := nodeIndex(role); got != want {
			t.Errorf("%q is node %d, want %d", role, got, want)
		}
	}
}

func TestState(t *testing.T) {
	c := testCluster(t)
	if _, err := c.loadState(); !errors.Is(err, errNotUp) {
		t.Errorf("no state: %v", err)
	}
	want := testState()
	if err := c.saveState(want); err != nil {
		t.Fatal(err)
	}
	got, err := c.loadState()
	if err != nil {
		t.Fatal(err)
	}
	if got.Network != want.Network || got.Ports != want.Ports || got.Tree != want.Tree || !got.Complete || !slices.Equal(got.Stopped, want.Stopped) {
		t.Errorf("saved %+v, loaded %+v", want, got)
	}
	if got.url() != "https://172.30.7.1:6443" || !slices.Equal(got.roles(), []string{"cp", "node1", "node2"}) {
		t.Errorf("url %s, roles %v", got.url(), got.roles())
	}
	content, err := os.ReadFile(c.stateFile())
	if err != nil {
		t.Fatal(err)
	}
	for _, damaged := range []string{"", "{}", "null", string(content[:len(content)/2]), strings.Replace(string(content), "172.30.7.0/24", "172.30", 1), strings.Replace(string(content), `"Nodes": 2`, `"Nodes": 2000`, 1)} {
		if s, err := parseState([]byte(damaged)); err == nil {
			t.Errorf("read %+v from %q", s, damaged)
		}
	}
	trees, err := Trees(c.root)
	if err != nil || !slices.Equal(trees, []build.Tree{want.Tree}) {
		t.Errorf("the clusters run %v, %v", trees, err)
	}
}

func TestAgrees(t *testing.T) {
	s := testState()
	for _, o := range []Options{{Nodes: -1}, {Nodes: 2}, {Nodes: -1, APIPort: 6443}, {Nodes: -1, Networks: network.Override{Pods: s.Network.Pods}}} {
		if err := o.agrees(s); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Nodes: 1}, "with 2 nodes instead of 1"},
		{Options{Nodes: -1, APIPort: 7443}, "with its API server on port 6443 instead of 7443"},
		{Options{Nodes: -1, Networks: network.Override{Services: netip.MustParsePrefix("10.96.0.0/16")}}, "with its Services in 10.103.0.0/16 instead of 10.96.0.0/16"},
	} {
		if err := c.o.agrees(s); err == nil || err.Error() != c.want {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
}

func TestNodeConfig(t *testing.T) {
	c := testCluster(t)
	if err := c.writeNodeConfig(testState(), 2); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kubelet.yaml", "proxy.yaml", "cni/10-pods.conflist"} {
		content, err := os.ReadFile(filepath.Join(c.roleDir("node2"), name))
		if err != nil {
			t.Fatal(err)
		}
		var value map[string]any
		if err := yaml.UnmarshalStrict(content, &value); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Contains(string(content), "<no value>") {
			t.Errorf("%s lacks a value:\n%s", name, content)
		}
		if name == "kubelet.yaml" && (value["cgroupRoot"] != "/cluster-unit/node2" || value["address"] != "172.30.7.12") {
			t.Errorf("kubelet.yaml is %v", value)
		}
	}
	manifest, err := render("coredns.yaml", struct{ Image, DNS string }{build.CoreDNSImage, "10.103.0.10"})
	if err != nil || !strings.Contains(string(manifest), "image: "+build.CoreDNSImage+"\n") || !strings.Contains(string(manifest), "clusterIP: 10.103.0.10\n") {
		t.Errorf("%v\n%s", err, manifest)
	}
}

func TestComponents(t *testing.T) {
	c, s := testCluster(t), testState()
	if err := c.writeCredentials(s); err != nil {
		t.Fatal(err)
	}
	for role, want := range map[string][]string{
		"cp":    {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"},
		"node2": {"containerd", "kubelet", "kube-proxy"},
	} {
		components, err := c.components(s, role)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, component := range components {
			names = append(names, component.name)
			for _, arg := range component.args {
				if _, file, ok := strings.Cut(arg, "="+c.pki()+"/"); ok {
					if _, err := os.Stat(filepath.Join(c.pki(), file)); err != nil {
						t.Errorf("%s is given a file that is not there: %v", component.name, err)
					}
				}
			}
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s runs %v", role, names)
		}
	}
}

func TestWaitFor(t *testing.T) {
	looks := 0
	if err := waitFor(t.Context(), "third look", time.Minute, func(context.Context) error {
		if looks++; looks < 3 {
			return errors.New("not yet")
		}
		return nil
	}); err != nil || looks != 3 {
		t.Errorf("%d looks, %v", looks, err)
	}
	err := waitFor(t.Context(), "it", time.Millisecond, func(context.Context) error { return errors.New("not yet") })
	if err == nil || err.Error() != "it: not within 1ms: not yet" {
		t.Error(err)
	}
	err = waitFor(t.Context(), "it", time.Minute, func(context.Context) error { return &hopelessError{errors.New("dead")} })
	if err == nil || err.Error() != "it: dead" {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := waitFor(ctx, "it", time.Minute, func(context.Context) error { return errors.New("not yet") }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestParseSignal(t *testing.T) {
	for s, want := range map[string]syscall.Signal{"KILL": syscall.SIGKILL, "SIGTERM": syscall.SIGTERM, "stop": syscall.SIGSTOP, "9": syscall.SIGKILL} {
		if got, err := parseSignal(s); err != nil || got != want {
			t.Errorf("%s is %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "NONE", "0", "-9", "99"} {
		if got, err := parseSignal(s); err == nil {
			t.Errorf("%q is %v", s, got)
		}
	}
}
