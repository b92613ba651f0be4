package build

import (
	"path"
	"slices"
)

// PauseImage and CoreDNSImage are the images that every node gets.
const (
	PauseImage   = "registry.k8s.io/pause:3.10"
	CoreDNSImage = "mcptask.dev/coredns:1.15.0"
)

// step makes some files of a tree.
type step struct {
	name   string
	folder string // where its programs go, below the tree
	recipe recipe
}

// recipe is the part of a step that decides the bytes it makes.
type recipe struct {
	Packages []string // Go packages of main programs
	Links    []string // more names of the only program, relative to the tree
	Tags     string   // build tags
	Ldflags  string   // linker flags; {VERSION} and its parts are those of Module
	Module   string   // module whose version or folder is wanted
	CGO      bool     // runc is part C
	CSource  string   // a C file of Module, instead of Go packages
	Image    string   // name of an image to wrap the only program in
	User     string   // user of that image
}

var steps = []step{
	{
		name:   "Kubernetes and etcd",
		folder: "kubernetes",
		recipe: recipe{
			Packages: []string{"./cmd/k8s"},
			Links: []string{
				"kubernetes/etcd", "kubernetes/kube-apiserver", "kubernetes/kube-controller-manager", "kubernetes/kube-scheduler",
				"kubernetes/kube-proxy", "kubernetes/kubelet", "kubernetes/kubectl", "tools/kubectl",
			},
			Module: "k8s.io/kubernetes",
			Ldflags: "-s -w -X k8s.io/component-base/version.gitVersion={VERSION}" +
				" -X k8s.io/component-base/version.gitMajor={MAJOR} -X k8s.io/component-base/version.gitMinor={MINOR}",
		},
	},
	{
		name:   "containerd",
		folder: "containerd",
		recipe: recipe{
			Packages: []string{"github.com/containerd/containerd/v2/cmd/containerd", "github.com/containerd/containerd/v2/cmd/ctr"},
			Tags:     "urfave_cli_no_docs no_btrfs no_devmapper no_zfs",
			Module:   "github.com/containerd/containerd/v2",
			Ldflags:  "-s -w -X github.com/containerd/containerd/v2/version.Version={NUMBER}",
		},
	},
	{
		name:   "containerd's shim",
		folder: "containerd",
		recipe: recipe{
			Packages: []string{"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"},
			Tags:     "urfave_cli_no_docs no_grpc",
			Ldflags:  "-s -w",
		},
	},
	{
		name:   "runc",
		folder: "containerd",
		recipe: recipe{
			Packages: []string{"github.com/opencontainers/runc"},
			Tags:     "seccomp urfave_cli_no_docs netgo osusergo",
			Module:   "github.com/opencontainers/runc",
			Ldflags:  "-s -w -linkmode external -extldflags -static -X main.version={NUMBER}",
			CGO:      true,
		},
	},
	{
		name:   "network plugins",
		folder: "cni",
		recipe: recipe{
			Packages: []string{
				"github.com/containernetworking/plugins/plugins/main/bridge",
				"github.com/containernetworking/plugins/plugins/ipam/host-local",
				"github.com/containernetworking/plugins/plugins/meta/portmap",
			},
			Ldflags: "-s -w",
		},
	},
	{
		name:   "the pause image",
		folder: "images",
		recipe: recipe{
			Module:  "k8s.io/kubernetes",
			CSource: "build/pause/linux/pause.c",
			Image:   PauseImage,
			User:    "65535:65535",
		},
	},
	{
		name:   "the CoreDNS image",
		folder: "images",
		recipe: recipe{Packages: []string{"./cmd/coredns"}, Ldflags: "-s -w", Image: CoreDNSImage, User: "65532:65532"},
	},
	{
		name:   "Helm",
		folder: "tools",
		recipe: recipe{
			Packages: []string{"helm.sh/helm/v4/cmd/helm"},
			Module:   "helm.sh/helm/v4",
			Ldflags:  "-s -w -X helm.sh/helm/v4/internal/version.version={VERSION}",
		},
	},
	{
		name:   "controller-gen",
		folder: "tools",
		recipe: recipe{
			Packages: []string{"sigs.k8s.io/controller-tools/cmd/controller-gen"},
			Module:   "sigs.k8s.io/controller-tools",
			Ldflags:  "-s -w -X sigs.k8s.io/controller-tools/pkg/version.version={VERSION}",
		},
	},
}

// programs are the names of the files that the compiler makes.
func (s step) programs() []string {
	if s.recipe.CSource != "" {
		return []string{path.Base(s.recipe.CSource[:len(s.recipe.CSource)-len(path.Ext(s.recipe.CSource))])}
	}
	var names []string
	for _, p := range s.recipe.Packages {
		names = append(names, path.Base(p))
	}
	return names
}

// outputs are the files that a step leaves in the tree, relative to it.
func (s step) outputs() []string {
	var files []string
	for _, name := range s.programs() {
		if s.recipe.Image != "" {
			name += ".tar"
		}
		files = append(files, path.Join(s.folder, name))
	}
	return append(files, s.recipe.Links...)
}

// needsC tells whether a step needs a C compiler.
func (s step) needsC() bool { return s.recipe.CGO || s.recipe.CSource != "" }

// stepsFor are the steps that make the given outputs.
func stepsFor(outputs ...string) []step {
	var needed []step
	for _, s := range steps {
		if slices.ContainsFunc(outputs, func(o string) bool { return slices.Contains(s.outputs(), o) }) {
			needed = append(needed, s)
		}
	}
	return needed
}
