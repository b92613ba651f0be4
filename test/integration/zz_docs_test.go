//go:build integration

package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clientcmd "k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

func TestZZDocs(t *testing.T) {
	ns := newGuardedNamespace(t, mutatingPolicies)
	admin := cfg
	cfg = rest.CopyConfig(cfg)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: controllerUser, Groups: []string{"system:masters"}}
	runController(t, ns)
	cfg = admin
	tool := newTool(ns, "pay-invoice")
	withRuntime(&tool.Spec)
	create(t, tool)
	awaitReady(t, tool)
	task := callOf(tool, `{}`)
	create(t, task)
	pod := awaitPod(t, task)
	_ = k8s.SubResource("binding").Create(t.Context(), pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "nowhere"}})
	play(t, pod, runningSince(metav1.Now()))
	bridge := as(t, bridgeUser)
	awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonRunning)
	rt := fmt.Sprintf(`[{"op":"add","path":"/status/runtime","value":[{"podUID":%q,"sequence":1,"inputRequests":[{"key":"k5xw6zdpn4qg-1","method":"elicitation/create","params":{"mode":"form","message":"Pay 4,200.00 EUR to ACME GmbH?","requestedSchema":{"type":"object","properties":{"approve":{"type":"boolean"}},"required":["approve"]}}},{"key":"mfzwizltoq2a-1","method":"elicitation/create","params":{"mode":"form","message":"Which cost centre?","requestedSchema":{"type":"object","properties":{"centre":{"type":"string"}},"required":["centre"]}}}]}]}]`, pod.UID)
	if err := bridge.Status().Patch(t.Context(), task.DeepCopy(), jsonPatch(rt)); err != nil {
		t.Fatal(err)
	}
	awaitState(t, task, v1alpha1.TaskInputRequired, v1alpha1.ReasonAwaitingInput)
	kc := clientcmdapi.NewConfig()
	kc.Clusters["c"] = &clientcmdapi.Cluster{Server: admin.Host, CertificateAuthorityData: admin.CAData}
	kc.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: admin.CertData, ClientKeyData: admin.KeyData, Token: admin.BearerToken, Impersonate: alice, ImpersonateGroups: []string{"system:masters"}}
	kc.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u", Namespace: ns}
	kc.CurrentContext = "x"
	path := filepath.Join(t.TempDir(), "kc")
	if err := clientcmd.WriteToFile(*kc, path); err != nil {
		t.Fatal(err)
	}
	script, _ := os.ReadFile("/tmp/docs.sh")
	cmd := exec.Command("bash", "-c", string(script))
	cmd.Env = append(os.Environ(), "KUBECONFIG="+path, "TASK="+task.Name, "PATH="+filepath.Dir(os.Getenv("HELM"))+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	fmt.Printf("DOCS %v\n%s\nEND\n", err, out)
	_ = client.IgnoreNotFound
}
