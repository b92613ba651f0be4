//go:build integration

package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/resultsecret"
	"github.com/mcptask/mcptask/api/v1alpha1"
)

// The chart's policies are installed once more, under names of their own and for the test's namespace alone. They are
// rendered for the release mcptask in mcptask-system, so that they agree with those of a chart that is already installed so.
const (
	chartRelease   = "mcptask"
	chartNamespace = "mcptask-system"

	controllerUser = "system:serviceaccount:mcptask-system:mcptask-controller"
	bridgeUser     = "system:serviceaccount:mcptask-system:mcptask-bridge"
	alice          = "alice@example.com"
	restorers      = "mcptask-test:restorers"

	mutatingPolicies = "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"
)

// newGuardedNamespace makes a namespace in which the chart's policies hold, and in which RBAC lets the users of these
// tests do everything with tools and tasks: what is refused, a policy or a definition refuses.
//
// The chart makes the policies that need an API the cluster has; the APIs are those named here.
func newGuardedNamespace(t *testing.T, apis ...string) string {
	t.Helper()
	namespace := newNamespace(t)
	grantAll(t, namespace)
	here := &admissionregistrationv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{
		MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace},
	}}
	for _, object := range renderPolicies(t, apis) {
		object.SetName(object.GetName() + "-" + namespace)
		switch binding := object.(type) {
		case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
			binding.Spec.PolicyName += "-" + namespace
			binding.Spec.MatchResources = here
		case *admissionregistrationv1.MutatingAdmissionPolicyBinding:
			binding.Spec.PolicyName += "-" + namespace
			binding.Spec.MatchResources = here
		}
		create(t, object)
		t.Cleanup(func() {
			if err := k8s.Delete(context.Background(), object); err != nil {
				t.Errorf("delete the policy %s: %v", object.GetName(), err)
			}
		})
		if policy, ok := object.(*admissionregistrationv1.ValidatingAdmissionPolicy); ok {
			awaitTypeCheck(t, policy)
		}
	}
	awaitPolicies(t, namespace)
	return namespace
}

// renderPolicies renders the chart's policies and their bindings.
func renderPolicies(t *testing.T, apis []string) []client.Object {
	t.Helper()
	return renderChart(t, []string{"templates/policy-status.yaml", "templates/policy-authorship.yaml", "templates/policy-results.yaml", "templates/policy-tools.yaml"},
		"--set", "admissionPolicy.exemptGroups={"+restorers+"}", "--api-versions", strings.Join(apis, ","))
}

// renderChart renders templates of the chart with the program HELM, else with helm of PATH.
func renderChart(t *testing.T, templates []string, args ...string) []client.Object {
	t.Helper()
	helm := os.Getenv("HELM")
	if helm == "" {
		helm = "helm"
	}
	var problems bytes.Buffer
	args = append([]string{"template", chartRelease, "../../charts/mcptask", "--namespace", chartNamespace}, args...)
	for _, template := range templates {
		args = append(args, "--show-only", template)
	}
	cmd := exec.CommandContext(t.Context(), helm, args...)
	cmd.Stderr = &problems
	rendered, err := cmd.Output()
	if err != nil {
		t.Fatalf("render the chart (set HELM to the helm program): %v\n%s", err, problems.String())
	}
	var objects []client.Object
	for decoder := yaml.NewYAMLToJSONDecoder(bytes.NewReader(rendered)); ; {
		var document rawDocument
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			return objects
		case err != nil:
			t.Fatalf("read the rendered chart: %v", err)
		}
		object, err := document.object()
		if err != nil {
			t.Fatalf("read the rendered chart: %v", err)
		}
		objects = append(objects, object)
	}
}

// rawDocument is one document of a rendered chart.
type rawDocument []byte

func (d *rawDocument) UnmarshalJSON(raw []byte) error { *d = bytes.Clone(raw); return nil }

func (d rawDocument) object() (client.Object, error) {
	decoded, _, err := strictDecoder.Decode(d, nil, nil)
	if err != nil {
		return nil, err
	}
	object, ok := decoded.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is not an object", decoded)
	}
	return object, nil
}

func grantAll(t *testing.T, namespace string) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: "everything-with-tasks", Namespace: namespace}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"*"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create"}},
		{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"create"}},
	}}
	binding := &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name}}
	for _, user := range []string{controllerUser, bridgeUser, alice} {
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user})
	}
	create(t, role)
	create(t, binding)
}

// awaitTypeCheck waits until Kubernetes has checked the policy's expressions against the definitions, and fails on any warning.
func awaitTypeCheck(t *testing.T, policy *admissionregistrationv1.ValidatingAdmissionPolicy) {
	t.Helper()
	eventually(t, "the type check of "+policy.Name, func() error {
		if err := read(t, policy); err != nil {
			return err
		}
		if policy.Status.ObservedGeneration != policy.Generation {
			return errors.New("not yet checked")
		}
		return nil
	})
	if check := policy.Status.TypeChecking; check != nil {
		for _, warning := range check.ExpressionWarnings {
			t.Errorf("policy %s, %s: %s", policy.Name, warning.FieldRef, warning.Warning)
		}
	}
}

// awaitPolicies waits until the API server holds to each of the policies, which takes it a moment after their creation.
func awaitPolicies(t *testing.T, namespace string) {
	t.Helper()
	ctx, person := t.Context(), as(t, alice)
	task, tool := unownedTask(t, namespace), newTool(namespace, "probe")
	create(t, tool)
	for what, attempt := range map[string]func() error{
		"the policy for the status of tasks":     func() error { return patchStatus(ctx, person, task, `{"message":"probe"}`) },
		"the policy for the status of tools":     func() error { return patchStatus(ctx, person, tool, `{"toolName":"probe"}`) },
		"the policy for the authorship of tasks": func() error { return person.Create(ctx, newTask(namespace), client.DryRunAll) },
		"the policy for results": func() error {
			return person.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "probe"}, Type: resultsecret.Type}, client.DryRunAll)
		},
	} {
		eventually(t, what, func() error {
			switch err := attempt(); {
			case err == nil:
				return errors.New("not yet enforced")
			case deniedByPolicy(err):
				return nil
			default:
				return err // such as RBAC, which lags too
			}
		})
	}
}

// as is a client that acts as the user, in the groups and in that of all authenticated users.
func as(t *testing.T, user string, groups ...string) client.Client {
	t.Helper()
	config := rest.CopyConfig(cfg)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatalf("client for %s: %v", user, err)
	}
	return c
}

// unownedTask makes, as the cluster's administrator, a task that is nobody's.
func unownedTask(t *testing.T, namespace string, changes ...func(*v1alpha1.McpTask)) *v1alpha1.McpTask {
	t.Helper()
	task := newTask(namespace)
	task.Spec.Owner = nil
	for _, change := range changes {
		change(task)
	}
	create(t, task)
	return task
}

// asks makes a task ask a question of each key, as the controller would.
func asks(t *testing.T, task *v1alpha1.McpTask, keys ...string) {
	t.Helper()
	questions := []string{}
	for _, key := range keys {
		questions = append(questions, fmt.Sprintf(`{"key":%q,"method":"elicitation/create","params":{"message":"?"}}`, key))
	}
	if err := patchStatus(t.Context(), as(t, controllerUser), task, `{"state":"input_required","inputRequests":[`+strings.Join(questions, ",")+`]}`); err != nil {
		t.Fatal(err)
	}
}

func patchStatus(ctx context.Context, c client.Client, object client.Object, status string) error {
	return c.Status().Patch(ctx, object.DeepCopyObject().(client.Object), mergePatch(`{"status":`+status+`}`))
}

func deniedByPolicy(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
}

// expectDenied wants a refusal by a policy whose message holds the words: the path of the field, first of all.
func expectDenied(t *testing.T, err error, words ...string) {
	t.Helper()
	if !deniedByPolicy(err) {
		t.Errorf("got %v, want a refusal by an admission policy", err)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the refusal %q does not say %q", err, word)
		}
	}
}

func expectAllowed(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("refused: %v", err)
	}
}
