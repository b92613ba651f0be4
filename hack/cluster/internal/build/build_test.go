package build

import (
	"bytes"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/mod/modfile"

	cluster "github.com/mcptask/mcptask/hack/cluster"
	"github.com/mcptask/mcptask/hack/cluster/internal/progress"
)

func key(t *testing.T, files fs.FS, goVersion, arch string) string {
	t.Helper()
	k, err := keyOf(files, goVersion, arch)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestKey(t *testing.T) {
	sources := fstest.MapFS{"go.sum": {Data: []byte("sums")}, "cmd/k8s/main.go": {Data: []byte("package main")}}
	want := key(t, sources, "go1.26", "amd64")
	with := func(name, content string) fs.FS {
		changed := maps.Clone(sources)
		changed[name] = &fstest.MapFile{Data: []byte(content)}
		return changed
	}
	if got := key(t, with("cmd/k8s/main_test.go", "package main"), "go1.26", "amd64"); got != want {
		t.Error("a test changes the key")
	}
	for what, got := range map[string]string{
		"another go.sum":       key(t, with("go.sum", "other sums"), "go1.26", "amd64"),
		"another source":       key(t, with("cmd/k8s/main.go", "package other"), "go1.26", "amd64"),
		"one more file":        key(t, with("cmd/k8s/more.go", ""), "go1.26", "amd64"),
		"another Go":           key(t, sources, "go1.27", "amd64"),
		"another architecture": key(t, sources, "go1.26", "arm64"),
	} {
		if got == want {
			t.Errorf("%s leaves the key as it is", what)
		}
	}
	saved := steps[0].recipe.Ldflags
	defer func() { steps[0].recipe.Ldflags = saved }()
	steps[0].recipe.Ldflags += " -w"
	if got := key(t, sources, "go1.26", "amd64"); got == want {
		t.Error("other flags leave the key as it is")
	}
}

func TestSources(t *testing.T) {
	for _, name := range []string{"go.mod", "go.sum", "cmd/k8s/main.go", "cmd/coredns/main.go"} {
		if _, err := fs.Stat(cluster.Sources, name); err != nil {
			t.Error(err)
		}
	}
}

func TestOutputs(t *testing.T) {
	all := Everything()
	sorted := slices.Sorted(slices.Values(all))
	if len(slices.Compact(sorted)) != len(all) {
		t.Errorf("two steps make one file: %v", all)
	}
	tree := Tree{"/tree"}
	for _, file := range append(tree.Images(), tree.Kubernetes()+"/kube-apiserver", tree.Kubernetes()+"/etcd", tree.Kubernetes()+"/kubectl",
		tree.Containerd()+"/containerd-shim-runc-v2", tree.Containerd()+"/runc", tree.CNI()+"/bridge", tree.Tools()+"/kubectl", tree.Tools()+"/helm") {
		if !slices.Contains(all, strings.TrimPrefix(file, "/tree/")) {
			t.Errorf("nothing makes %s", file)
		}
	}
	if steps := stepsFor(Assets()...); len(steps) != 1 {
		t.Errorf("envtest's programs take %d steps", len(steps))
	}
	for _, s := range stepsFor(Cluster()...) {
		if s.name == "Helm" || s.name == "controller-gen" {
			t.Errorf("a cluster does not need %s", s.name)
		}
	}
	one, err := Tools("controller-gen")
	if err != nil || len(stepsFor(one...)) != 1 {
		t.Errorf("controller-gen alone is %v, %v", one, err)
	}
	if all, err := Tools(); err != nil || len(stepsFor(all...)) != 3 {
		t.Errorf("all tools are %v, %v", all, err)
	}
	if _, err := Tools("kustomize"); err == nil || !strings.Contains(err.Error(), "there are kubectl, helm, controller-gen") {
		t.Errorf("an unknown tool: %v", err)
	}
}

func TestMissing(t *testing.T) {
	b := &Builder{tree: Tree{t.TempDir()}, report: progress.New(os.Stderr)}
	if got := b.missing(Assets()); len(got) != 1 {
		t.Fatalf("an empty tree misses %v", got)
	}
	s := stepsFor(Assets()...)[0]
	if err := os.MkdirAll(filepath.Join(b.tree.Dir, s.folder), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.tree.Dir, "kubernetes/k8s"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range s.recipe.Links {
		if len(b.missing(Assets())) == 0 {
			t.Fatalf("%s is not missed", name)
		}
		if err := b.link("kubernetes/k8s", name); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.missing(Assets()); len(got) != 0 {
		t.Errorf("a whole tree misses %v", got)
	}
	if target, err := os.Readlink(filepath.Join(b.tree.Dir, "tools/kubectl")); err != nil || target != "../kubernetes/k8s" {
		t.Errorf("kubectl is a link to %q, %v", target, err)
	}
}

func TestExpand(t *testing.T) {
	modules, err := modfile.Parse("go.mod", []byte("module m\nrequire k8s.io/kubernetes v1.37.2\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &compiler{modules: modules}
	got, err := c.expand("{VERSION} {NUMBER} {MAJOR} {MINOR}", "k8s.io/kubernetes")
	if err != nil || got != "v1.37.2 1.37.2 1 37" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := c.expand("{VERSION}", "k8s.io/other"); err == nil {
		t.Error("expanded the version of a module that is not required")
	}
	// The module graph has every module that a step asks for.
	content, err := fs.ReadFile(cluster.Sources, "go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if c.modules, err = modfile.Parse("go.mod", content, nil); err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		if _, err := c.expand(s.recipe.Ldflags, s.recipe.Module); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
	}
}

// An error of go is shown; what progress knows of is not.
func TestGoCommand(t *testing.T) {
	c := &compiler{source: t.TempDir(), report: progress.New(os.Stderr)}
	err := c.goCommand(t.Context(), recipe{}, io.Discard, func(string) bool { return false }, "list", "./nothing-here")
	if err == nil || !strings.Contains(err.Error(), "go list: exit status 1\n") {
		t.Errorf("got %v", err)
	}
}

// Programs are built with the Go that go.mod names, also below a go command of another release.
func TestGoIsTheOneOfTheModule(t *testing.T) {
	content, err := fs.ReadFile(cluster.Sources, "go.mod")
	if err != nil {
		t.Fatal(err)
	}
	source := t.TempDir()
	if err := os.WriteFile(filepath.Join(source, "go.mod"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := newCompiler(source, progress.New(os.Stderr))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOTOOLCHAIN", "go1.99.0")
	var out bytes.Buffer
	if err := c.goCommand(t.Context(), recipe{}, &out, func(string) bool { return false }, "env", "GOVERSION"); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.TrimSpace(out.String()), "go"+c.modules.Go.Version; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestClean(t *testing.T) {
	root := t.TempDir()
	tree := func(name string) Tree {
		dir := filepath.Join(root, name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return Tree{dir}
	}
	own, used, old := tree("own"), tree("used"), tree("old")
	building := &Builder{tree: tree("building"), report: progress.New(os.Stderr)}
	unlock, err := building.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	b := &Builder{tree: own, report: progress.New(os.Stderr)}
	if err := b.Clean([]Tree{used}); err != nil {
		t.Fatal(err)
	}
	for _, kept := range []Tree{own, used, building.tree} {
		if _, err := os.Stat(kept.Dir); err != nil {
			t.Errorf("removed %s", kept.Dir)
		}
	}
	if _, err := os.Stat(old.Dir); err == nil {
		t.Error("kept an old build")
	}
}
