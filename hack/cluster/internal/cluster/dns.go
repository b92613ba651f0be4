package cluster

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/mcptask/mcptask/hack/cluster/internal/build"
)

// applyDNS creates CoreDNS and what belongs to it.
func (c *Cluster) applyDNS(ctx context.Context, s *state) error {
	manifest, err := render("coredns.yaml", struct{ Image, DNS string }{build.CoreDNSImage, s.Network.DNS().String()})
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(s.Tree.Kubernetes(), "kubectl"), "--kubeconfig", c.Kubeconfig(),
		"--cache-dir", filepath.Join(c.dir, "kubectl-cache"), "apply", "-f", "-")
	cmd.Stdin = bytes.NewReader(manifest)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("create cluster DNS: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// lookup is nil when the cluster's DNS answers, which takes a node, its network,
// kube-proxy and CoreDNS.
func lookup(ctx context.Context, s *state) error {
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, proto, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, proto, net.JoinHostPort(s.Network.DNS().String(), "53"))
	}}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := resolver.LookupHost(ctx, "kubernetes.default.svc.cluster.local.")
	return err
}
