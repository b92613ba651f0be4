package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// GiB is a gibibyte in bytes.
const GiB = 1 << 30

// CheckSpace makes sure that the file system of a folder has so many bytes free.
// A folder that does not exist yet is judged by the nearest one above it.
func CheckSpace(folder string, need uint64) error {
	for {
		if _, err := os.Stat(folder); err == nil || folder == filepath.Dir(folder) {
			break
		}
		folder = filepath.Dir(folder)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(folder, &fs); err != nil {
		return fmt.Errorf("look up the free space of %s: %w", folder, err)
	}
	if free := fs.Bavail * uint64(fs.Bsize); free < need {
		return fmt.Errorf("%s has %.1f GiB free; this needs about %.0f GiB", folder, float64(free)/GiB, float64(need)/GiB)
	}
	return nil
}

// CheckOverlay makes sure that overlayfs, which holds the containers' root file
// systems, can be mounted on folders below the given one: it cannot on top of
// another overlayfs, as in most containers.
func CheckOverlay(folder string) (err error) {
	probe, err := os.MkdirTemp(folder, ".overlay-")
	if err != nil {
		return fmt.Errorf("try overlayfs: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(probe)) }()
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(probe, name), 0o700); err != nil {
			return fmt.Errorf("try overlayfs: %w", err)
		}
	}
	options := fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", probe)
	merged := filepath.Join(probe, "merged")
	if err := unix.Mount("overlay", merged, "overlay", 0, options); err != nil {
		return fmt.Errorf("overlayfs cannot be mounted in %s (%w): containers need it; set MCPTASK_CACHE to a folder on ext4 or xfs, or load the kernel module overlay", folder, err)
	}
	if err := unix.Unmount(merged, 0); err != nil {
		return fmt.Errorf("try overlayfs: unmount %s: %w", merged, err)
	}
	return nil
}
