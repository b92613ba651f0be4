package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/mcptask/mcptask/hack/cluster/internal/build"
	"github.com/mcptask/mcptask/hack/cluster/internal/cache"
	"github.com/mcptask/mcptask/hack/cluster/internal/network"
)

// state is what must be remembered of a cluster besides its files. What runs is
// not in here: the kernel knows that better.
type state struct {
	Complete bool         // up has come to its end
	Nodes    int          // number of nodes
	Tree     build.Tree   // the programs it runs
	Network  network.Plan // its addresses
	Ports    ports
	Stopped  []string // roles that somebody has powered off
}

// ports are on the host's network. All but the first are on a loopback address.
type ports struct {
	API, Etcd, EtcdPeer, ControllerManager, Scheduler uint16
}

// errNotUp is returned for a cluster that there is not.
var errNotUp = errors.New("is not up")

func (c *Cluster) stateFile() string { return filepath.Join(c.dir, "state.json") }

func (c *Cluster) loadState() (*state, error) {
	content, err := os.ReadFile(c.stateFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cluster %s %w", c.Name, errNotUp)
	}
	if err != nil {
		return nil, fmt.Errorf("read the state of cluster %s: %w", c.Name, err)
	}
	s, err := parseState(content)
	if err != nil {
		return nil, fmt.Errorf("the state of cluster %s is damaged: %w; run down, then up", c.Name, err)
	}
	return s, nil
}

func parseState(content []byte) (*state, error) {
	s := &state{}
	if err := json.Unmarshal(content, s); err != nil {
		return nil, err
	}
	if s.Tree.Dir == "" || !s.Network.Nodes.IsValid() || s.Ports.API == 0 || s.Nodes < 0 || s.Nodes > network.MaxNodes {
		return nil, errors.New("it is incomplete")
	}
	return s, nil
}

// Trees are the programs that clusters below a cache folder run.
func Trees(root string) ([]build.Tree, error) {
	files, err := filepath.Glob(filepath.Join(cache.Clusters(root), "*", "state.json"))
	if err != nil {
		return nil, fmt.Errorf("list clusters: %w", err)
	}
	var trees []build.Tree
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("list clusters: %w", err)
		}
		if s, err := parseState(content); err == nil {
			trees = append(trees, s.Tree)
		}
	}
	return trees, nil
}

// saveState replaces the file as a whole: a crash leaves the old or the new one.
func (c *Cluster) saveState(s *state) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("save the state of cluster %s: %w", c.Name, err)
	}
	unfinished := c.stateFile() + ".unfinished"
	if err := os.WriteFile(unfinished, append(content, '\n'), 0o644); err != nil {
		return fmt.Errorf("save the state of cluster %s: %w", c.Name, err)
	}
	if err := os.Rename(unfinished, c.stateFile()); err != nil {
		return fmt.Errorf("save the state of cluster %s: %w", c.Name, err)
	}
	return nil
}

// roles are the control plane and every node.
func (s *state) roles() []string {
	roles := []string{controlPlane}
	for i := range s.Nodes {
		roles = append(roles, nodeName(i+1))
	}
	return roles
}

func (s *state) isStopped(role string) bool { return slices.Contains(s.Stopped, role) }

func (s *state) url() string { return fmt.Sprintf("https://%s:%d", s.Network.Host(), s.Ports.API) }

// checkRole says which roles there are if the given one is none of them.
func (c *Cluster) checkRole(s *state, role string) error {
	if !slices.Contains(s.roles(), role) {
		return fmt.Errorf("cluster %s has no %q; it has %v", c.Name, role, s.roles())
	}
	return nil
}
