package serve

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// install copies this program to where the containers of the Pod find it. They may run it while it is replaced.
func install(path string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("install %s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // the work finds the program here, whichever its user
		return fmt.Errorf("install %s: %w", path, err)
	}
	next := path + ".next"
	if err := os.Remove(next); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("install %s: %w", path, err)
	}
	if err := copyFile(self, next); err != nil {
		return fmt.Errorf("install %s: %w", path, err)
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("install %s: %w", path, err)
	}
	return nil
}

func copyFile(from, to string) error {
	source, err := os.Open(from) //nolint:gosec // this program itself
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755) //nolint:gosec // the work runs it, whichever its user
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}
