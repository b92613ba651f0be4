//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
	"github.com/mcptask/mcptask/test/harness"
)

// The Pods of both parts are what the restricted standard asks for, and work in a namespace that enforces it.
func TestPartsAreRestricted(t *testing.T) {
	cluster := connect(t)
	label := func(value string) error {
		_, err := harness.Run(context.Background(), "", "kubectl", "label", "--overwrite", "namespace", harness.SystemNamespace, "pod-security.kubernetes.io/enforce"+value)
		return err
	}
	t.Cleanup(func() {
		if err := label("-"); err != nil {
			t.Error(err)
		}
	})
	if err := label("=restricted"); err != nil {
		t.Fatal(err)
	}
	for _, deployment := range []string{harness.Release + "-bridge", harness.Release + "-controller"} {
		kubectl(t, "", "-n", harness.SystemNamespace, "rollout", "restart", "deployment", deployment)
	}
	for _, deployment := range []string{harness.Release + "-bridge", harness.Release + "-controller"} {
		kubectl(t, "", "-n", harness.SystemNamespace, "rollout", "status", "deployment", deployment, "--timeout=2m")
	}
	var pods corev1.PodList
	if err := cluster.Client.List(t.Context(), &pods, client.InNamespace(harness.SystemNamespace), client.MatchingLabels{"app.kubernetes.io/name": "mcptask"}); err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		for _, container := range pod.Spec.Containers {
			s := container.SecurityContext
			if s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
				t.Errorf("%s can write to its own files", pod.Name)
			}
		}
	}

	// A task with a sidecar: its namespace is restricted too.
	namespace := withTools(t, cluster, "reach")
	agent := cluster.Agent(t, cluster.Replicas(t)[0], namespace, "agent", true)
	task := finish(t, agent, call(t, agent, "reach", `{"addresses":[]}`))
	if task.Status != mcpclient.Completed {
		t.Fatalf("%s", task.Raw)
	}
	var own corev1.PodList
	if err := cluster.Client.List(t.Context(), &own, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelTask: task.ID}); err != nil || len(own.Items) != 1 {
		t.Fatalf("%v, %d Pods", err, len(own.Items))
	}
	for _, container := range own.Items[0].Spec.InitContainers {
		if s := container.SecurityContext; s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
			t.Errorf("the sidecar %s can write to its own files", container.Name)
		}
	}
}

// With rights in one namespace alone, and a certificate of its own, the bridge serves that namespace and no other, over TLS.
func TestPartsWorkInTheirNamespacesAlone(t *testing.T) {
	cluster := connect(t)
	namespace, elsewhere := withTools(t, cluster, "compute"), cluster.Namespace(t)
	authorities := makeCertificate(t, cluster)
	upgraded(t, fmt.Sprintf(`
publicURL: %s
namespaces: [%s]
rbac: {scope: namespace}
bridge: {tls: {secretName: mcptask-e2e-tls}}
`, harness.PublicURL, namespace))
	cluster.AwaitBridge(t)

	pod := cluster.BridgePods(t)[0].Name
	https := "https://" + harness.Forward(t, harness.SystemNamespace, "pod/"+pod, 8080)
	speaks := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities}}}
	as := func(ns string) *mcpclient.Client {
		token := cluster.Token(t, ns, "agent", harness.Audience(ns))
		return mcpclient.New(https+"/mcp/"+ns, mcpclient.Options{Tasks: true, HTTPClient: speaks, Token: func(context.Context) (string, error) { return token, nil }})
	}
	agent := as(namespace)
	if task := finish(t, agent, call(t, agent, "compute", `{"label":"over TLS"}`)); task.Status != mcpclient.Completed {
		t.Errorf("%s", task.Raw)
	}
	if _, err := as(elsewhere).CallTool(t.Context(), "compute", nil, mcpclient.CallOptions{}); err == nil {
		t.Error("another namespace is served")
	}
	// Neither part has a right where it has no Role.
	for _, part := range []string{"bridge", "controller"} {
		account := "system:serviceaccount:" + harness.SystemNamespace + ":" + harness.Release + "-" + part
		for ns, want := range map[string]string{namespace: "yes\n", elsewhere: "no\n"} {
			out, err := harness.Run(t.Context(), "", "kubectl", "auth", "can-i", "list", "mcptasks.mcptask.dev", "-n", ns, "--as", account)
			if (err == nil) != (want == "yes\n") || out != want {
				t.Errorf("%s in %s: %q, %v", part, ns, out, err)
			}
		}
	}
}

// makeCertificate puts a certificate for 127.0.0.1 into the Secret mcptask-e2e-tls, and returns those who vouch for it.
func makeCertificate(t *testing.T, cluster *harness.Cluster) *x509.CertPool {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "mcptask-e2e-tls", Namespace: harness.SystemNamespace},
		Type:       corev1.SecretTypeTLS,
		Data: map[string][]byte{
			corev1.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
			corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		},
	}
	if err := cluster.Client.Create(t.Context(), secret); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Client.Delete(context.Background(), secret); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
	authorities := x509.NewCertPool()
	authorities.AddCert(server.Certificate())
	return authorities
}

// upgraded installs the chart with further values until the test ends.
func upgraded(t *testing.T, values string) {
	t.Helper()
	t.Cleanup(func() {
		if _, err := harness.Run(context.Background(), "", "helm", harness.HelmArgs()...); err != nil {
			t.Error(err)
		}
	})
	if _, err := harness.Run(t.Context(), values, "helm", append(harness.HelmArgs(), "--values", "-")...); err != nil {
		t.Fatal(err)
	}
}
