package build

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	cluster "github.com/mcptask/mcptask/hack/cluster"
	"github.com/mcptask/mcptask/hack/cluster/internal/host"
	"github.com/mcptask/mcptask/hack/cluster/internal/progress"
)

// Assets are the outputs that envtest and a controller-manager beside it need.
func Assets() []string { return []string{"kubernetes/kube-apiserver"} }

// Everything is all outputs that there are.
func Everything() []string {
	var outputs []string
	for _, s := range steps {
		outputs = append(outputs, s.outputs()...)
	}
	return outputs
}

// Cluster is what a running cluster needs: everything but Helm and controller-gen.
func Cluster() []string {
	return slices.DeleteFunc(Everything(), func(o string) bool { return strings.HasPrefix(o, "tools/") })
}

// tools are the programs that people call by name.
var tools = []string{"kubectl", "helm", "controller-gen"}

// Tools are the outputs for the given programs, or for all of them.
func Tools(names ...string) ([]string, error) {
	if len(names) == 0 {
		names = tools
	}
	var outputs []string
	for _, name := range names {
		if !slices.Contains(tools, name) {
			return nil, fmt.Errorf("no program %q here; there are %s", name, strings.Join(tools, ", "))
		}
		outputs = append(outputs, "tools/"+name)
	}
	return outputs, nil
}

// Builder builds what is missing from a tree.
type Builder struct {
	tree    Tree
	sources fs.FS
	report  *progress.Reporter
}

// New returns a Builder for the tree below the cache folder root that belongs
// to this program's sources.
func New(root string, report *progress.Reporter) (*Builder, error) {
	tree, err := newTree(root, cluster.Sources)
	if err != nil {
		return nil, err
	}
	return &Builder{tree: tree, sources: cluster.Sources, report: report}, nil
}

// Ensure builds those of the outputs that are missing and returns their tree.
// Two at once do not build twice: the second waits for the first.
func (b *Builder) Ensure(ctx context.Context, outputs ...string) (Tree, error) {
	if err := host.CheckArchitecture(); err != nil {
		return Tree{}, err
	}
	if len(b.missing(outputs)) == 0 {
		return b.tree, nil
	}
	if err := os.MkdirAll(b.tree.Dir, 0o755); err != nil {
		return Tree{}, fmt.Errorf("make the build folder: %w", err)
	}
	unlock, err := b.lock(ctx)
	if err != nil {
		return Tree{}, err
	}
	defer unlock()
	missing := b.missing(outputs)
	if len(missing) == 0 {
		return b.tree, nil
	}
	return b.tree, b.build(ctx, missing)
}

func (b *Builder) missing(outputs []string) []step {
	return slices.DeleteFunc(stepsFor(outputs...), func(s step) bool {
		return !slices.ContainsFunc(s.outputs(), func(o string) bool {
			_, err := os.Stat(filepath.Join(b.tree.Dir, o))
			return err != nil
		})
	})
}

func (b *Builder) lock(ctx context.Context) (unlock func(), err error) {
	lock := flock.New(b.tree.Dir + ".lock")
	if ok, err := lock.TryLock(); err != nil {
		return nil, fmt.Errorf("lock the build folder: %w", err)
	} else if !ok {
		b.report.Linef("waiting for another build to end (%s)", lock.Path())
		if _, err := lock.TryLockContext(ctx, 200*time.Millisecond); err != nil {
			return nil, fmt.Errorf("wait for another build to end: %w", err)
		}
	}
	return func() { _ = lock.Close() }, nil // the lock ends with the file
}

func (b *Builder) build(ctx context.Context, missing []step) (err error) {
	if slices.ContainsFunc(missing, step.needsC) {
		if err := host.Ensure(ctx, b.report, host.BuildPackages); err != nil {
			return err
		}
	}
	if err := b.sweep(); err != nil {
		return err
	}
	source := filepath.Join(b.tree.Dir, "source")
	if err := os.CopyFS(source, b.sources); err != nil {
		return fmt.Errorf("write the sources: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(source)) }()
	compiler, err := newCompiler(source, b.report)
	if err != nil {
		return err
	}
	for i, s := range missing {
		compiler.title = fmt.Sprintf("building %d of %d: %s", i+1, len(missing), s.name)
		b.report.Linef("%s", compiler.title)
		if err := b.run(ctx, compiler, s); err != nil {
			return fmt.Errorf("build %s: %w", s.name, err)
		}
	}
	b.report.Linef("built into %s", b.tree.Dir)
	return nil
}

// sweep removes what a build that was killed has left behind.
func (b *Builder) sweep() error {
	left, err := filepath.Glob(filepath.Join(b.tree.Dir, "unfinished-*"))
	if err != nil {
		return fmt.Errorf("look for unfinished builds: %w", err)
	}
	for _, folder := range append(left, filepath.Join(b.tree.Dir, "source")) {
		if err := os.RemoveAll(folder); err != nil {
			return fmt.Errorf("remove an unfinished build: %w", err)
		}
	}
	return nil
}

// run makes a step's files in a folder of their own and then moves them into
// the tree, so that a file in the tree is always a whole one.
func (b *Builder) run(ctx context.Context, c *compiler, s step) (err error) {
	tmp, err := os.MkdirTemp(b.tree.Dir, "unfinished-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	if err := c.compile(ctx, s.recipe, tmp); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(b.tree.Dir, s.folder), 0o755); err != nil {
		return err
	}
	for _, name := range s.programs() {
		if s.recipe.Image != "" {
			if err := wrap(filepath.Join(tmp, name), s.recipe); err != nil {
				return err
			}
			name += ".tar"
		}
		if err := os.Rename(filepath.Join(tmp, name), filepath.Join(b.tree.Dir, s.folder, name)); err != nil {
			return err
		}
	}
	for _, name := range s.recipe.Links {
		if err := b.link(filepath.Join(s.folder, s.programs()[0]), name); err != nil {
			return err
		}
	}
	return nil
}

// link makes one more name for a program, relative, so that the tree can move.
func (b *Builder) link(program, name string) error {
	name = filepath.Join(b.tree.Dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	target, err := filepath.Rel(filepath.Dir(name), filepath.Join(b.tree.Dir, program))
	if err != nil {
		return err
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(target, name)
}
