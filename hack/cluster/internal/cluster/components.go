package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// startPatience is how long one component may take before the next is started.
const startPatience = 2 * time.Minute

// component is one long-running program of a role.
type component struct {
	name    string
	program string // path
	args    []string
	ready   func(context.Context) error // before the next one is started; nil: at once
}

// components are the programs of a role in the order they start.
func (c *Cluster) components(s *state, role string) ([]component, error) {
	api, err := c.client(s)
	if err != nil {
		return nil, err
	}
	if role == controlPlane {
		return c.controlPlaneComponents(s, api), nil
	}
	return c.nodeComponents(s, api, nodeIndex(role)), nil
}

func (c *Cluster) controlPlaneComponents(s *state, api *client) []component {
	program := func(name string) string { return filepath.Join(s.Tree.Kubernetes(), name) }
	pki := func(name string) string { return filepath.Join(c.pki(), name) }
	port := func(p uint16) string { return strconv.Itoa(int(p)) }
	loopback := s.Network.Loopback().String()
	etcd := fmt.Sprintf("http://%s:%d", loopback, s.Ports.Etcd)
	peer := fmt.Sprintf("http://%s:%d", loopback, s.Ports.EtcdPeer)
	address, services := s.Network.Host().String(), s.Network.Services.String()
	return []component{
		{
			name: "etcd", program: program("etcd"),
			args: []string{
				"--name=etcd", "--data-dir=" + filepath.Join(c.roleDir(controlPlane), "etcd"), "--log-level=warn",
				"--listen-client-urls=" + etcd, "--advertise-client-urls=" + etcd,
				"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=etcd=" + peer,
				"--unsafe-no-fsync=true", // a cluster that is thrown away need not survive a power cut
			},
		},
		{
			name: "kube-apiserver", program: program("kube-apiserver"), ready: api.ready,
			args: []string{
				"-v=2", "--etcd-servers=" + etcd,
				"--bind-address=" + address, "--advertise-address=" + address, "--secure-port=" + port(s.Ports.API),
				"--tls-cert-file=" + pki("apiserver.crt"), "--tls-private-key-file=" + pki("apiserver.key"), "--client-ca-file=" + pki("ca.crt"),
				"--service-cluster-ip-range=" + services, "--allow-privileged=true",
				"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
				"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
				"--service-account-key-file=" + pki("sa.pub"), "--service-account-signing-key-file=" + pki("sa.key"),
				"--kubelet-client-certificate=" + pki("kubelet-client.crt"), "--kubelet-client-key=" + pki("kubelet-client.key"),
				"--kubelet-certificate-authority=" + pki("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
				"--requestheader-client-ca-file=" + pki("front-ca.crt"), "--requestheader-allowed-names=front-proxy-client",
				"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
				"--requestheader-extra-headers-prefix=X-Remote-Extra-",
				"--proxy-client-cert-file=" + pki("front-proxy.crt"), "--proxy-client-key-file=" + pki("front-proxy.key"),
			},
		},
		{
			name: "kube-controller-manager", program: program("kube-controller-manager"),
			args: append(clientFlags(pki("controller-manager.kubeconfig")),
				"--bind-address="+loopback, "--secure-port="+port(s.Ports.ControllerManager), "--use-service-account-credentials=true",
				"--root-ca-file="+pki("ca.crt"), "--service-account-private-key-file="+pki("sa.key"),
				"--node-monitor-period=1s", // a new node loses its not-ready taint at once
				"--cluster-signing-cert-file="+pki("ca.crt"), "--cluster-signing-key-file="+pki("ca.key"),
				"--service-cluster-ip-range="+services, "--kube-api-qps=200", "--kube-api-burst=400"),
		},
		{
			name: "kube-scheduler", program: program("kube-scheduler"),
			args: append(clientFlags(pki("scheduler.kubeconfig")), "--bind-address="+loopback, "--secure-port="+port(s.Ports.Scheduler)),
		},
	}
}

// clientFlags are common to the API server's clients in the control plane.
func clientFlags(kubeconfig string) []string {
	return []string{
		"-v=2", "--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--leader-elect=false",
	}
}

func (c *Cluster) nodeComponents(s *state, api *client, i int) []component {
	dir := c.roleDir(nodeName(i))
	return []component{
		{
			name: "containerd", program: filepath.Join(s.Tree.Containerd(), "containerd"),
			args: []string{"--config", filepath.Join(dir, "containerd.toml")},
			ready: func(ctx context.Context) error {
				_, err := os.Stat("/run/containerd/containerd.sock")
				return errors.Join(err, api.ready(ctx))
			},
		},
		{
			name: "kubelet", program: filepath.Join(s.Tree.Kubernetes(), "kubelet"),
			args: []string{
				"-v=2", "--config=" + filepath.Join(dir, "kubelet.yaml"), "--kubeconfig=" + filepath.Join(dir, "kubelet.kubeconfig"),
				"--hostname-override=" + nodeName(i), "--node-ip=" + s.Network.Node(i).String(),
			},
		},
		{
			name: "kube-proxy", program: filepath.Join(s.Tree.Kubernetes(), "kube-proxy"),
			args: []string{"-v=2", "--config=" + filepath.Join(dir, "proxy.yaml")},
		},
	}
}
