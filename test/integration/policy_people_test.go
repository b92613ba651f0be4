//go:build integration

package integration

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// roleOf are the rules of a ClusterRole for people, as the chart has it.
func roleOf(t *testing.T, name string) []rbacv1.PolicyRule {
	t.Helper()
	helm := os.Getenv("HELM")
	if helm == "" {
		helm = "helm"
	}
	rendered, err := exec.CommandContext(t.Context(), helm, "template", chartRelease, "../../charts/mcptask", "--namespace", chartNamespace,
		"--show-only", "templates/people-rbac.yaml").Output()
	if err != nil {
		t.Fatalf("render the chart (set HELM to the helm program): %v", err)
	}
	for decoder := yaml.NewYAMLToJSONDecoder(bytes.NewReader(rendered)); ; {
		role := &rbacv1.ClusterRole{}
		if err := decoder.Decode(role); errors.Is(err, io.EOF) {
			t.Fatalf("the chart has no role %s", name)
		} else if err != nil {
			t.Fatal(err)
		}
		if role.Name == chartRelease+"-"+name {
			return role.Rules
		}
	}
}

// give gives a user rights in a namespace and returns a client that acts as the user.
func give(t *testing.T, namespace, user string, rules ...rbacv1.PolicyRule) client.Client {
	t.Helper()
	meta := metav1.ObjectMeta{GenerateName: "people-", Namespace: namespace}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: rules}
	create(t, role)
	create(t, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}})
	return as(t, user)
}

func TestApproversCanAnswerAndNothingElse(t *testing.T) {
	namespace := newGuardedNamespace(t)
	const name = "approver@example.com"
	approver := give(t, namespace, name, roleOf(t, "approver")...)
	task := unownedTask(t, namespace, func(task *v1alpha1.McpTask) { task.Labels = map[string]string{"team": "a"} })
	eventually(t, "the approver's rights", func() error { return readAs(t, approver, task) })
	asks(t, task, "q")
	const add = `[{"op":"add","path":"/spec/inputResponses","value":[{"key":"q","response":{"action":"accept"},"answeredBy":{"principal":"` + name + `","via":"kubectl"}}]}`
	const only = "spec.inputResponses: is all that may be changed"
	for what, patch := range map[string]string{
		"a cancellation":  `[{"op":"add","path":"/spec/cancel","value":{"requested":true}}]`,
		"a life":          `[{"op":"add","path":"/spec/ttl","value":"1h"}]`,
		"a label":         `[{"op":"add","path":"/metadata/labels/team","value":"b"}]`,
		"no labels":       `[{"op":"remove","path":"/metadata/labels"}]`,
		"an annotation":   `[{"op":"add","path":"/metadata/annotations","value":{"a":"b"}}]`,
		"a finalizer":     `[{"op":"add","path":"/metadata/finalizers","value":["example.com/stay"]}]`,
		"an owner":        `[{"op":"add","path":"/metadata/ownerReferences","value":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"x"}]}]`,
		"an answer, more": add + `,{"op":"add","path":"/spec/cancel","value":{"requested":true}}]`,
	} {
		t.Run(what, func(t *testing.T) {
			expectDenied(t, approver.Patch(t.Context(), task.DeepCopy(), jsonPatch(patch)), only)
		})
	}
	expectDenied(t, approver.Patch(t.Context(), task.DeepCopy(), jsonPatch(strings.ReplaceAll(add, name, "bob@example.com")+"]")), "answeredBy: must name you")
	expectDenied(t, approver.Patch(t.Context(), task.DeepCopy(), jsonPatch(strings.ReplaceAll(add, `"key":"q"`, `"key":"unasked"`)+"]")),
		"spec.inputResponses[key=unasked]: the task asks no such question")
	expectAllowed(t, approver.Patch(t.Context(), task.DeepCopy(), jsonPatch(add+"]")))
	if err := approver.Create(t.Context(), newTask(namespace)); err == nil {
		t.Error("an approver can make tasks")
	}
	if err := approver.Delete(t.Context(), task.DeepCopy()); err == nil {
		t.Error("an approver can delete tasks")
	}

	operator := give(t, namespace, "operator@example.com", roleOf(t, "task-operator")...)
	eventually(t, "the operator's rights", func() error { return readAs(t, operator, task) })
	expectAllowed(t, operator.Patch(t.Context(), task.DeepCopy(), jsonPatch(`[{"op":"add","path":"/spec/cancel","value":{"requested":true}}]`)))
}

func readAs(t *testing.T, who client.Client, object client.Object) error {
	return who.Get(t.Context(), client.ObjectKeyFromObject(object), object.DeepCopyObject().(client.Object))
}

// A tool is the right to run Jobs, so only those can write one who may do that by themselves.
func TestAToolGivesItsAuthorNoMoreThanAJobOfTheirOwn(t *testing.T) {
	namespace := newGuardedNamespace(t)
	onlyTools := rbacv1.PolicyRule{APIGroups: []string{"mcptask.dev"}, Resources: []string{"mcptools"}, Verbs: []string{"*"}}
	writer := give(t, namespace, "writer@example.com", onlyTools)
	author := give(t, namespace, "author@example.com", roleOf(t, "tool-author")...)
	tool := newTool(namespace, "authored")
	eventually(t, "the author's rights", func() error { return author.Create(t.Context(), tool.DeepCopy()) })
	if err := read(t, tool); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the writer's rights", func() error { return readAs(t, writer, tool) })
	const words = "spec.jobTemplate: who writes a tool must have the right to create Jobs"
	expectDenied(t, writer.Create(t.Context(), newTool(namespace, "sneaked")), words)
	expectDenied(t, writer.Patch(t.Context(), tool.DeepCopy(), jsonPatch(`[{"op":"replace","path":"/spec/description","value":"Another."}]`)), words)
	expectAllowed(t, writer.Patch(t.Context(), tool.DeepCopy(), jsonPatch(`[{"op":"add","path":"/metadata/labels","value":{"team":"a"}}]`)))
	expectAllowed(t, author.Patch(t.Context(), tool.DeepCopy(), jsonPatch(`[{"op":"replace","path":"/spec/description","value":"Another."}]`)))
}
