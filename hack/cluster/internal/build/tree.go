// Package build builds every program of a cluster from Go modules, once, into
// a folder named by what it was built from.
package build

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/mcptask/mcptask/hack/cluster/internal/cache"
)

// Tree is one folder of built programs.
type Tree struct{ Dir string }

// Kubernetes is the folder of kube-apiserver, kubelet, etcd and the like, all of
// them one program. envtest can use it as KUBEBUILDER_ASSETS.
func (t Tree) Kubernetes() string { return filepath.Join(t.Dir, "kubernetes") }

// Containerd is the folder of containerd, its shim, ctr and runc.
func (t Tree) Containerd() string { return filepath.Join(t.Dir, "containerd") }

// CNI is the folder of the network plugins.
func (t Tree) CNI() string { return filepath.Join(t.Dir, "cni") }

// Tools is the folder of kubectl, helm and controller-gen.
func (t Tree) Tools() string { return filepath.Join(t.Dir, "tools") }

// Images are the archives that every node needs.
func (t Tree) Images() []string {
	return []string{filepath.Join(t.Dir, "images", "pause.tar"), filepath.Join(t.Dir, "images", "coredns.tar")}
}

// newTree names the folder for the given sources and this Go toolchain.
func newTree(root string, sources fs.FS) (Tree, error) {
	key, err := keyOf(sources, runtime.Version(), runtime.GOARCH)
	if err != nil {
		return Tree{}, err
	}
	return Tree{filepath.Join(cache.Builds(root), key)}, nil
}

// keyOf is a hash of all that decides the bytes of the built programs: the
// sources without their tests, the steps with their flags, and the toolchain.
func keyOf(sources fs.FS, goVersion, arch string) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, goVersion, arch)
	for _, s := range steps {
		fmt.Fprintf(sum, "%+v\n", s.recipe)
	}
	err := fs.WalkDir(sources, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(name, "_test.go") {
			return err
		}
		content, err := fs.ReadFile(sources, name)
		fmt.Fprintf(sum, "%s %d\n%s\n", name, len(content), content)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("hash the sources: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}
