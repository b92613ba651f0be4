package build

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/gofrs/flock"
)

// Clean removes every tree but this program's own and the given ones. A tree
// that is being built is left alone.
func (b *Builder) Clean(used []Tree) error {
	dirs, err := filepath.Glob(filepath.Join(filepath.Dir(b.tree.Dir), "*"))
	if err != nil {
		return fmt.Errorf("list builds: %w", err)
	}
	for _, dir := range dirs {
		if filepath.Ext(dir) == ".lock" || dir == b.tree.Dir || slices.Contains(used, Tree{dir}) {
			continue
		}
		if err := b.removeTree(dir); err != nil {
			return fmt.Errorf("remove a build: %w", err)
		}
	}
	return nil
}

func (b *Builder) removeTree(dir string) error {
	lock := flock.New(dir + ".lock")
	if ok, err := lock.TryLock(); err != nil || !ok {
		return err
	}
	defer lock.Close()
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	b.report.Linef("removed %s", dir)
	return os.Remove(lock.Path())
}
