//go:build e2e

// Package harness gives tests an installed mcptask in the cluster of KUBECONFIG. It expects kubectl and helm in PATH, and in the
// environment IMAGE (the repository of the image under test), TAG and EXAMPLES_IMAGE, all of which the make targets set.
package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// Where the chart is installed.
const (
	Release         = "mcptask"
	SystemNamespace = "mcptask-system"
	PublicURL       = "http://mcptask-bridge.mcptask-system.svc.cluster.local"
)

// Cluster is the cluster under test.
type Cluster struct {
	Config     *rest.Config
	Client     client.Client
	Kubernetes kubernetes.Interface
}

// Connect reaches the cluster of KUBECONFIG as its administrator.
func Connect() (*Cluster, error) {
	ctrl.SetLogger(logr.Discard())
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("no cluster to test on: %w", err)
	}
	config.QPS, config.Burst = 200, 400
	scheme := kruntime.NewScheme()
	for _, add := range []func(*kruntime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	c := &Cluster{Config: config}
	if c.Client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	c.Kubernetes, err = kubernetes.NewForConfig(config)
	return c, err
}

// Run executes a command in the root of the checkout and returns what it printed.
func Run(ctx context.Context, stdin, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = Root()
	if stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// Root is the folder of the checkout.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	if !filepath.IsAbs(file) { // built with -trimpath
		dir, err := os.Getwd()
		for err == nil && dir != "/" {
			if _, err := os.Stat(filepath.Join(dir, "charts")); err == nil {
				return dir
			}
			dir = filepath.Dir(dir)
		}
	}
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// HelmArgs are the arguments that install or upgrade the chart with the image under test.
func HelmArgs(set ...string) []string {
	args := []string{"upgrade", "--install", Release, "charts/mcptask", "--namespace", SystemNamespace, "--create-namespace",
		"--set", "image.repository=" + env("IMAGE", "mcptask.dev/mcptask"), "--set", "image.tag=" + env("TAG", "dev"), "--wait", "--timeout", "3m"}
	for _, s := range set {
		args = append(args, "--set", s)
	}
	return args
}

// Main installs the chart, runs the tests of a package and, where the chart was not there before, uninstalls it.
func Main(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctx := context.Background()
	if _, err := Run(ctx, "", "helm", "status", Release, "--namespace", SystemNamespace); err != nil {
		defer func() {
			_, uninstall := Run(ctx, "", "helm", "uninstall", Release, "--namespace", SystemNamespace, "--wait", "--timeout", "3m")
			if err == nil {
				err = uninstall
			}
		}()
	}
	if _, err := Run(ctx, "", "helm", HelmArgs()...); err != nil {
		return 0, err
	}
	// Pods of an earlier image with the same tag are replaced.
	for _, verb := range [][]string{{"restart"}, {"status", "--timeout", "3m"}} {
		args := append([]string{"-n", SystemNamespace, "rollout", verb[0], "deployment", "-l", "app.kubernetes.io/instance=" + Release}, verb[1:]...)
		if _, err := Run(ctx, "", "kubectl", args...); err != nil {
			return 0, err
		}
	}
	return m.Run(), nil
}

func env(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

// ExamplesImage is the image that the tools of the tests run.
func ExamplesImage() string { return env("EXAMPLES_IMAGE", "mcptask.dev/examples:dev") }

// Namespace makes a namespace for one test, with restricted Pod security, and the service accounts agent and stranger in it,
// which may call its tools.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "mcptask-e2e-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	if err := c.Client.Create(context.Background(), ns); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Client.Delete(context.Background(), ns); client.IgnoreNotFound(err) != nil {
			t.Errorf("deleting %s: %v", ns.Name, err)
		}
	})
	for _, account := range []string{"agent", "stranger"} {
		if err := c.Client.Create(context.Background(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account, Namespace: ns.Name}}); err != nil {
			t.Fatal(err)
		}
		c.LetCall(t, ns.Name, account)
	}
	return ns.Name
}

// LetCall lets a service account call the tools of its namespace.
func (c *Cluster) LetCall(t testing.TB, namespace, account string) {
	t.Helper()
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account + "-calls", Namespace: namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: Release + "-caller"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
	}
	if err := c.Client.Create(context.Background(), binding); err != nil {
		t.Fatal(err)
	}
}

// Apply applies manifests as a user does. IMAGE in them becomes the image of the examples.
func (c *Cluster) Apply(t testing.TB, namespace, manifests string) {
	t.Helper()
	if _, err := Run(context.Background(), strings.ReplaceAll(manifests, "image: IMAGE", "image: "+ExamplesImage()), "kubectl", "-n", namespace, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// AwaitTools waits until every tool of the namespace is ready.
func (c *Cluster) AwaitTools(t testing.TB, namespace string) {
	t.Helper()
	if _, err := Run(context.Background(), "", "kubectl", "-n", namespace, "wait", "mcptools", "--all", "--for=condition=Ready", "--timeout=60s"); err != nil {
		t.Fatal(err)
	}
}

// Eventually waits until the condition holds; it fails the test with what the condition last said.
func Eventually(t testing.TB, within time.Duration, what string, condition func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(context.Background(), 100*time.Millisecond, within, true, func(ctx context.Context) (bool, error) {
		last = condition(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v", what, last)
	}
}
