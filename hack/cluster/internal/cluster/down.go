package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcptask/mcptask/hack/cluster/internal/cgroup"
	"github.com/mcptask/mcptask/hack/cluster/internal/host"
	"github.com/mcptask/mcptask/hack/cluster/internal/network"
	"github.com/mcptask/mcptask/hack/cluster/internal/process"
)

// Down removes everything of a cluster. It goes by the names of things alone,
// so that it also works when the cluster's files are lost or damaged.
func (c *Cluster) Down(ctx context.Context) error {
	if err := host.CheckRoot(); err != nil {
		return err
	}
	unlock, err := c.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return c.remove(ctx)
}

func (c *Cluster) remove(ctx context.Context) error {
	dirs := []string{c.dir}
	inits, err := process.Inits()
	if err != nil {
		return err
	}
	found := false
	for _, i := range inits {
		if i.Cluster != c.Name {
			continue
		}
		found = true
		if !slices.Contains(dirs, i.Dir) { // started with another cache folder
			dirs = append(dirs, i.Dir)
		}
		patient, cancel := context.WithTimeout(ctx, killPatience)
		err := i.Kill(patient)
		cancel()
		if err != nil {
			return err
		}
	}
	links, err := network.RemoveLinks(c.Name)
	if err != nil {
		return err
	}
	hierarchies, err := cgroup.Hierarchies()
	if err != nil {
		return err
	}
	found = found || len(links) > 0 || cgroup.Exists(hierarchies, c.cgroup())
	if err := cgroup.Remove(hierarchies, c.cgroup()); err != nil {
		return err
	}
	for _, dir := range dirs {
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		found = true
		if err := removeDir(dir); err != nil {
			return fmt.Errorf("remove the files of cluster %s: %w", c.Name, err)
		}
	}
	if found {
		c.report.Linef("cluster %s is removed", c.Name)
	}
	return nil
}

// removeDir removes a folder. Should something still be mounted in it, that is
// unmounted first, so that nothing outside is removed through it.
func removeDir(dir string) error {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > 4 && strings.HasPrefix(fields[4], dir+"/") {
			if err := unix.Unmount(fields[4], unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
				return fmt.Errorf("unmount %s: %w", fields[4], err)
			}
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}
