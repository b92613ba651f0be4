package cluster

import (
	"fmt"
	"path/filepath"

	"github.com/mcptask/mcptask/hack/cluster/internal/pki"
)

// writeCredentials writes every certificate, key and kubeconfig of a cluster.
func (c *Cluster) writeCredentials(s *state) error {
	if err := c.credentials(s); err != nil {
		return fmt.Errorf("write the cluster's certificates: %w", err)
	}
	return nil
}

func (c *Cluster) credentials(s *state) error {
	authority, err := pki.NewAuthority(c.Name + "-ca")
	if err != nil {
		return err
	}
	front, err := pki.NewAuthority(c.Name + "-front-proxy-ca")
	if err != nil {
		return err
	}
	if err := authority.Write(c.pki(), "ca"); err != nil {
		return err
	}
	if err := front.Write(c.pki(), "front-ca"); err != nil {
		return err
	}
	if err := pki.WriteServiceAccountKeys(c.pki(), "sa"); err != nil {
		return err
	}
	server, err := authority.Server("kube-apiserver", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local", "localhost", "127.0.0.1", s.Network.Host().String(), s.Network.APIService().String())
	if err != nil {
		return err
	}
	if err := server.Write(c.pki(), "apiserver"); err != nil {
		return err
	}
	for _, u := range []struct {
		by           *pki.Pair
		file, user   string
		groups       []string
		toKubeconfig string
	}{
		{front, "front-proxy", "front-proxy-client", nil, ""},
		{authority, "kubelet-client", "kube-apiserver-kubelet-client", []string{"system:masters"}, ""},
		{authority, "admin", "kubernetes-admin", []string{"system:masters"}, c.Kubeconfig()},
		{authority, "controller-manager", "system:kube-controller-manager", nil, filepath.Join(c.pki(), "controller-manager.kubeconfig")},
		{authority, "scheduler", "system:kube-scheduler", nil, filepath.Join(c.pki(), "scheduler.kubeconfig")},
	} {
		client, err := u.by.Client(u.user, u.groups...)
		if err != nil {
			return err
		}
		if err := client.Write(c.pki(), u.file); err != nil {
			return err
		}
		if u.toKubeconfig == "" {
			continue
		}
		if err := pki.WriteKubeconfig(u.toKubeconfig, c.Name, s.url(), authority, client); err != nil {
			return err
		}
	}
	for i := 1; i <= s.Nodes; i++ {
		if err := c.nodeCredentials(s, authority, i); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) nodeCredentials(s *state, authority *pki.Pair, i int) error {
	node := nodeName(i)
	dir := c.roleDir(node)
	server, err := authority.Server(node, node, s.Network.Node(i).String())
	if err != nil {
		return err
	}
	if err := server.Write(dir, "kubelet"); err != nil {
		return err
	}
	kubelet, err := authority.Client("system:node:"+node, "system:nodes")
	if err != nil {
		return err
	}
	if err := pki.WriteKubeconfig(filepath.Join(dir, "kubelet.kubeconfig"), c.Name, s.url(), authority, kubelet); err != nil {
		return err
	}
	proxy, err := authority.Client("system:kube-proxy")
	if err != nil {
		return err
	}
	return pki.WriteKubeconfig(filepath.Join(dir, "proxy.kubeconfig"), c.Name, s.url(), authority, proxy)
}
