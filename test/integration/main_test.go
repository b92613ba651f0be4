//go:build integration

// Package integration holds the tests that need an API server but no node.
//
// They start etcd, kube-apiserver and kube-controller-manager from the folder KUBEBUILDER_ASSETS. With
// USE_EXISTING_CLUSTER=true they use the cluster of KUBECONFIG instead; definitions that are already there are left as they are.
package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

var (
	// cfg reaches the API server as a cluster administrator.
	cfg *rest.Config
	// k8s is a client without a cache, made of cfg.
	k8s client.Client
	// scheme knows the types of Kubernetes, of CustomResourceDefinitions and of mcptask.
	scheme = runtime.NewScheme()
	// strictDecoder reads objects of scheme and refuses fields that they do not have.
	strictDecoder = serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
)

const crdFolder = "../../config/crd"

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "integration:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	ctrl.SetLogger(klog.Background())
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return 0, err
		}
	}

	// Patient, for machines that do other things at the same time.
	env := &envtest.Environment{ControlPlaneStartTimeout: 2 * time.Minute, ControlPlaneStopTimeout: time.Minute}
	existing := strings.EqualFold(os.Getenv("USE_EXISTING_CLUSTER"), "true")
	if !existing && os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return 0, errors.New("set KUBEBUILDER_ASSETS to the folder of etcd, kube-apiserver and kube-controller-manager, or USE_EXISTING_CLUSTER=true")
	}
	// envtest switches off the admission of service accounts, which a real cluster has.
	env.ControlPlane.GetAPIServer().Configure().Set("disable-admission-plugins", "")
	if cfg, err = env.Start(); err != nil {
		return 0, fmt.Errorf("start the control plane: %w", err)
	}
	defer func() { err = errors.Join(err, env.Stop()) }()
	if k8s, err = client.New(cfg, client.Options{Scheme: scheme}); err != nil {
		return 0, err
	}
	if err := withoutChart(); err != nil {
		return 0, err
	}
	if err := installCRDs(); err != nil {
		return 0, fmt.Errorf("install the definitions of %s: %w", crdFolder, err)
	}
	if !existing {
		// After the definitions: the garbage collector then knows the kinds from its start.
		stop, err := startControllerManager(env)
		if err != nil {
			return 0, fmt.Errorf("start kube-controller-manager: %w", err)
		}
		defer stop()
	}
	return m.Run(), nil
}

// withoutChart makes sure that no other operator works on the tests' objects, and no policy refuses what they try.
func withoutChart() error {
	var policies admissionregistrationv1.ValidatingAdmissionPolicyList
	if err := k8s.List(context.Background(), &policies, client.MatchingLabels{"app.kubernetes.io/name": "mcptask"}); err != nil {
		return err
	}
	if len(policies.Items) > 0 {
		return errors.New("mcptask is installed in this cluster: uninstall the chart for these tests, which bring an operator of their own")
	}
	return nil
}

// installCRDs installs the definitions that the cluster does not have.
func installCRDs() error {
	options := envtest.CRDInstallOptions{Paths: []string{crdFolder}, ErrorIfPathMissing: true, Scheme: scheme}
	if err := envtest.ReadCRDFiles(&options); err != nil {
		return err
	}
	var missing []*apiextensionsv1.CustomResourceDefinition
	for _, crd := range options.CRDs {
		err := k8s.Get(context.Background(), client.ObjectKeyFromObject(crd), &apiextensionsv1.CustomResourceDefinition{})
		switch {
		case apierrors.IsNotFound(err):
			missing = append(missing, crd)
		case err != nil:
			return err
		}
	}
	if len(missing) == 0 {
		return nil
	}
	_, err := envtest.InstallCRDs(cfg, envtest.CRDInstallOptions{CRDs: missing, Scheme: scheme})
	return err
}

// startControllerManager gives envtest's API server the controllers that it lacks: Jobs, garbage collection, namespaces.
func startControllerManager(env *envtest.Environment) (stop func(), err error) {
	user, err := env.AddUser(envtest.User{Name: "kube-controller-manager", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := user.KubeConfig()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "kube-controller-manager-")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(path, kubeconfig, 0o600); err != nil {
		return nil, err
	}
	output := filepath.Join(dir, "log")
	log, err := os.Create(output)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kube-controller-manager"),
		"--kubeconfig="+path,
		"--leader-elect=false",
		"--secure-port=0",
		"--use-service-account-credentials=false",
		"--service-account-private-key-file="+filepath.Join(env.ControlPlane.GetAPIServer().CertDir, "sa-signer.key"))
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	return func() {
		select {
		case err := <-exited:
			fmt.Fprintf(os.Stderr, "kube-controller-manager ended during the tests (%v); its log: %s\n", err, output)
		default:
			_ = cmd.Process.Kill()
			<-exited
			_ = os.RemoveAll(dir)
		}
		_ = log.Close()
	}, nil
}

// newNamespace makes a namespace of its own for the test and deletes it at the test's end.
func newNamespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "mcptask-test-"}}
	if err := k8s.Create(t.Context(), ns); err != nil {
		t.Fatalf("create a namespace: %v", err)
	}
	eventually(t, "the namespace has its service account", func() error {
		return read(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: ns.Name}})
	})
	t.Cleanup(func() {
		// The test's own context has ended by now.
		if err := k8s.Delete(context.Background(), ns); client.IgnoreNotFound(err) != nil {
			t.Errorf("delete namespace %s: %v", ns.Name, err)
		}
	})
	return ns.Name
}
