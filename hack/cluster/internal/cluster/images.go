package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/mcptask/mcptask/hack/cluster/internal/process"
)

// Load puts the images of archives on every node that runs.
func (c *Cluster) Load(ctx context.Context, archives []string) error {
	s, err := c.loadState()
	if err != nil {
		return err
	}
	for i := range s.Nodes {
		role := nodeName(i + 1)
		if s.isStopped(role) {
			c.report.Linef("%s is stopped and gets no images", role)
			continue
		}
		if err := c.loadImages(ctx, s, role, archives); err != nil {
			return err
		}
		c.report.Linef("%s has %d more images", role, len(archives))
	}
	return nil
}

func (c *Cluster) loadImages(ctx context.Context, s *state, role string, archives []string) error {
	err := waitFor(ctx, "containerd of "+role, readyPatience, func(ctx context.Context) error {
		i, err := c.running(role)
		if err != nil {
			return &hopelessError{err}
		}
		out, err := enter(ctx, i, filepath.Join(s.Tree.Containerd(), "ctr"), "--connect-timeout", "1s", "version").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
		}
		return nil
	})
	if err != nil {
		return err
	}
	i, err := c.running(role)
	if err != nil {
		return err
	}
	for _, archive := range archives {
		if err := importImage(ctx, s, i, archive); err != nil {
			return fmt.Errorf("load %s on %s: %w", archive, role, err)
		}
	}
	return nil
}

// importImage sends an archive through standard input: a node does not see all
// of this machine's files.
func importImage(ctx context.Context, s *state, i process.Init, archive string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	cmd := enter(ctx, i, filepath.Join(s.Tree.Containerd(), "ctr"), "--namespace", "k8s.io", "images", "import", "-")
	cmd.Stdin = f
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// enter is a command inside the namespaces of a role.
func enter(ctx context.Context, i process.Init, command ...string) *exec.Cmd {
	args := append([]string{"--target", strconv.Itoa(i.PID), "--mount", "--net", "--pid", "--uts", "--ipc", "--"}, command...)
	cmd := exec.CommandContext(ctx, "nsenter", args...)
	cmd.WaitDelay = time.Second
	return cmd
}
