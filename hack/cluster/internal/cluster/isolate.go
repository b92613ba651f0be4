package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// tunables are what the kubelet sets on its machine, with the values it wants.
// A node shows it files that hold them already, so that the machine's own
// settings stay as they are.
var tunables = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// isolate makes the mounts of a role. It runs in the role's own namespaces, and
// nothing of it is seen outside them.
func (c *Cluster) isolate(role string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if role == controlPlane {
		return nil
	}
	if err := c.ownFolders(role); err != nil {
		return err
	}
	if err := c.ownTunables(role); err != nil {
		return err
	}
	// A peer group of the node's own lets Pods ask for mount propagation.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share mounts: %w", err)
	}
	if err := unix.Sethostname([]byte(role)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return fmt.Errorf("let packets through to Pods: %w", err)
	}
	return nil
}

// ownFolders gives a node a /var that outlives its power-offs and a /run that
// does not. The machine's own are out of its sight, but for the cache folder.
func (c *Cluster) ownFolders(role string) error {
	cache, err := unix.Open(c.root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", c.root, err)
	}
	defer unix.Close(cache)
	disk := filepath.Join(c.roleDir(role), "var")
	for _, folder := range []string{"lib/containerd", "lib/kubelet", "lib/cni", "log/pods", "log/containers", "tmp"} {
		if err := os.MkdirAll(filepath.Join(disk, folder), 0o755); err != nil {
			return fmt.Errorf("make the disk of %s: %w", role, err)
		}
	}
	if err := os.Symlink("/run", filepath.Join(disk, "run")); err != nil && !os.IsExist(err) {
		return fmt.Errorf("make the disk of %s: %w", role, err)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	if err := unix.Mount(disk, "/var", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount /var: %w", err)
	}
	if !strings.HasPrefix(c.root, "/var/") && !strings.HasPrefix(c.root, "/run/") {
		return nil
	}
	if err := os.MkdirAll(c.root, 0o755); err != nil {
		return fmt.Errorf("show the cache folder: %w", err)
	}
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", cache), c.root, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("show the cache folder: %w", err)
	}
	return nil
}

func (c *Cluster) ownTunables(role string) error {
	for name, value := range tunables {
		file := filepath.Join(c.roleDir(role), "sys", name)
		if err := writeFile(file, []byte(value+"\n")); err != nil {
			return err
		}
		if err := unix.Mount(file, filepath.Join("/proc/sys", name), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("cover /proc/sys/%s: %w", name, err)
		}
	}
	return nil
}
