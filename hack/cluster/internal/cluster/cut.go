package cluster

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/mcptask/mcptask/hack/cluster/internal/network"
)

// Cut cuts the network between nodes and the control plane, or, with all, between nodes and everybody. Being powered off
// and on again heals a node.
func (c *Cluster) Cut(ctx context.Context, roles []string, all bool) error {
	return c.filter(ctx, roles, "is cut off", func(s *state) string {
		if all {
			return network.CutAll()
		}
		return s.Network.CutControlPlane(s.Ports.API)
	})
}

// Heal ends what Cut did. A node that is not cut off is left as it is.
func (c *Cluster) Heal(ctx context.Context, roles []string) error {
	return c.filter(ctx, roles, "is joined", func(*state) string { return network.Heal() })
}

// filter gives rules to the packet filters of nodes.
func (c *Cluster) filter(ctx context.Context, roles []string, done string, rules func(*state) string) error {
	s, err := c.loadState()
	if err != nil {
		return err
	}
	for _, role := range roles {
		if err := c.checkRole(s, role); err != nil {
			return err
		}
		if role == controlPlane {
			return fmt.Errorf("%s is on this machine's own network: cut nodes off", role)
		}
		i, err := c.running(role)
		if err != nil {
			return err
		}
		nft := enter(ctx, i, "nft", "--file", "-")
		nft.Stdin = strings.NewReader(rules(s))
		if out, err := nft.CombinedOutput(); err != nil {
			return fmt.Errorf("the packet filter of %s: %w: %s", role, err, bytes.TrimSpace(out))
		}
		c.report.Linef("%s %s", role, done)
	}
	return nil
}
