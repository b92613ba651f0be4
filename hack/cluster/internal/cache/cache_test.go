package cache

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRoot(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "real"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	t.Setenv(Variable, filepath.Join(dir, "link", "new"))
	if root, err := Root(); err != nil || root != filepath.Join(dir, "real", "new") {
		t.Errorf("got %s, %v", root, err)
	}
	t.Setenv(Variable, "")
	t.Setenv("XDG_CACHE_HOME", dir)
	if root, err := Root(); err != nil || root != filepath.Join(dir, "mcptask") {
		t.Errorf("got %s, %v", root, err)
	}
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	if root, err := Root(); err == nil {
		t.Errorf("got %s without a home", root)
	}
}
