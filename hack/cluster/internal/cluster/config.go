package cluster

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"text/template"

	"golang.org/x/sys/unix"

	"github.com/mcptask/mcptask/hack/cluster/internal/build"
	"github.com/mcptask/mcptask/hack/cluster/internal/host"
)

//go:embed config
var configFiles embed.FS

var configs = template.Must(template.ParseFS(configFiles, "config/*"))

// settings fill in the files of a node's configuration.
type settings struct {
	Dir, PKI, CgroupRoot, Node      string
	Address, DNS, PodCIDR, PodsCIDR string
	PauseImage, CNIPrograms, Runc   string
	Restricted                      bool // no CAP_SYS_RESOURCE: neither lower OOM scores nor higher limits
	FileLimit                       uint64
}

// writeNodeConfig writes the configuration of containerd, kubelet and kube-proxy.
func (c *Cluster) writeNodeConfig(s *state, i int) error {
	node := nodeName(i)
	dir := c.roleDir(node)
	values := settings{
		Dir: dir, PKI: c.pki(), CgroupRoot: "/" + filepath.Join(c.cgroup(), node), Node: node,
		Address: s.Network.Node(i).String(), DNS: s.Network.DNS().String(),
		PodCIDR: s.Network.PodsOf(i).String(), PodsCIDR: s.Network.Pods.String(),
		PauseImage: build.PauseImage, CNIPrograms: s.Tree.CNI(), Runc: filepath.Join(s.Tree.Containerd(), "runc"),
		Restricted: !host.HasCapability(unix.CAP_SYS_RESOURCE), FileLimit: host.FileLimit(),
	}
	for name, file := range map[string]string{
		"containerd.toml": "containerd.toml", "kubelet.yaml": "kubelet.yaml", "proxy.yaml": "proxy.yaml", "cni.conflist": "cni/10-pods.conflist",
	} {
		content, err := render(name, values)
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(dir, file), content); err != nil {
			return err
		}
	}
	return writeFile(filepath.Join(dir, "resolv.conf"), nil) // Pods that do not use the cluster's DNS have none
}

func render(name string, values any) ([]byte, error) {
	var out bytes.Buffer
	if err := configs.ExecuteTemplate(&out, name, values); err != nil {
		return nil, fmt.Errorf("write the configuration %s: %w", name, err)
	}
	return out.Bytes(), nil
}

func writeFile(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := os.WriteFile(name, content, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
