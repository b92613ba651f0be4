//go:build integration

package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

func answer(key string, by *v1alpha1.Answerer) v1alpha1.InputResponse {
	return v1alpha1.InputResponse{Key: key, Response: runtime.RawExtension{Raw: []byte(`{"action":"accept"}`)}, AnsweredBy: by}
}

func TestAuthorshipOfNewTasks(t *testing.T) {
	namespace := newGuardedNamespace(t)
	bob := v1alpha1.Identity{Issuer: "kubernetes", Subject: "bob@example.com"}

	for _, c := range []struct {
		name    string
		change  func(*v1alpha1.McpTask)
		refusal string // what it says; empty where a person may do this
	}{
		{"nobody is named", func(*v1alpha1.McpTask) {}, ""},
		{"owner is the requester", func(task *v1alpha1.McpTask) {
			task.Spec.Owner = &v1alpha1.Identity{Issuer: "kubernetes", Subject: alice}
		}, ""},
		{"owner is somebody else", func(task *v1alpha1.McpTask) { task.Spec.Owner = &bob }, "spec.owner: must be absent or name you, that is issuer kubernetes and subject " + alice},
		{"owner has another issuer", func(task *v1alpha1.McpTask) {
			task.Spec.Owner = &v1alpha1.Identity{Issuer: "https://issuer.example.com", Subject: alice}
		}, "spec.owner: "},
		{"owner is anonymous", func(task *v1alpha1.McpTask) {
			task.Spec.Owner = &v1alpha1.Identity{Issuer: "anonymous", Subject: "anonymous"}
		}, "spec.owner: "},
		{"cancelled by nobody", func(task *v1alpha1.McpTask) { task.Spec.Cancel = &v1alpha1.CancelRequest{Requested: true} }, ""},
		{"cancelled by the requester", func(task *v1alpha1.McpTask) {
			task.Spec.Cancel = &v1alpha1.CancelRequest{Requested: true, By: alice}
		}, ""},
		{"cancelled by somebody else", func(task *v1alpha1.McpTask) {
			task.Spec.Cancel = &v1alpha1.CancelRequest{Requested: true, By: bob.Subject}
		}, "spec.cancel.by: must be absent or name you, that is " + alice},
		{"answered by nobody", func(task *v1alpha1.McpTask) {
			task.Spec.InputResponses = []v1alpha1.InputResponse{answer("a", nil)}
		}, "spec.inputResponses[key=a].answeredBy: must name you, that is via kubectl and principal " + alice},
		{"answered by the requester", func(task *v1alpha1.McpTask) {
			task.Spec.InputResponses = []v1alpha1.InputResponse{answer("a", &v1alpha1.Answerer{Principal: alice, Via: "kubectl"})}
		}, ""},
		{"one of two answered by somebody else", func(task *v1alpha1.McpTask) {
			task.Spec.InputResponses = []v1alpha1.InputResponse{answer("a", &v1alpha1.Answerer{Principal: alice, Via: "kubectl"}), answer("b", &v1alpha1.Answerer{Principal: bob.Subject, Via: "kubectl"})}
		}, "spec.inputResponses[key=b].answeredBy: "},
		{"answered through something else", func(task *v1alpha1.McpTask) {
			task.Spec.InputResponses = []v1alpha1.InputResponse{answer("a", &v1alpha1.Answerer{Principal: alice, Via: "mcp"})}
		}, "spec.inputResponses[key=a].answeredBy: "},
		{"answered without saying how", func(task *v1alpha1.McpTask) {
			task.Spec.InputResponses = []v1alpha1.InputResponse{answer("a", &v1alpha1.Answerer{Principal: alice})}
		}, "spec.inputResponses[key=a].answeredBy: "},
		{"owner label", func(task *v1alpha1.McpTask) {
			task.Labels = map[string]string{v1alpha1.LabelOwner: v1alpha1.Identity{Issuer: "kubernetes", Subject: alice}.Hash()}
		}, "metadata.labels[mcptask.dev/owner]: "},
		{"another label", func(task *v1alpha1.McpTask) { task.Labels = map[string]string{"team": "a"} }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			createAs := func(who client.Client) error {
				task := newTask(namespace)
				task.Spec.Owner = nil
				c.change(task)
				return who.Create(t.Context(), task)
			}
			if err := createAs(as(t, alice)); c.refusal == "" {
				expectAllowed(t, err)
			} else {
				expectDenied(t, err, c.refusal)
			}
			expectAllowed(t, createAs(as(t, bridgeUser)))
		})
	}

	t.Run("an administrator is bound too", func(t *testing.T) {
		task := newTask(namespace)
		task.Spec.Owner = &bob
		expectDenied(t, k8s.Create(t.Context(), task), "spec.owner")
	})
}

func TestAuthorshipOfChanges(t *testing.T) {
	namespace := newGuardedNamespace(t)
	person, bridge := as(t, alice), as(t, bridgeUser)
	owner := v1alpha1.Identity{Issuer: "kubernetes", Subject: "bob@example.com"}

	// A task of somebody else's, with an answer and a label that only the bridge can give.
	bobsTask := func(t *testing.T) *v1alpha1.McpTask {
		t.Helper()
		task := newTask(namespace)
		task.Labels = map[string]string{v1alpha1.LabelOwner: owner.Hash()}
		task.Spec.Owner = &owner
		task.Spec.InputResponses = []v1alpha1.InputResponse{answer("first", &v1alpha1.Answerer{Principal: "kubernetes:" + owner.Subject, Via: "mcp"})}
		if err := bridge.Create(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		asks(t, task, "first", "second")
		return task
	}
	const (
		add    = `{"op":"add","path":"/spec/inputResponses/-","value":{"key":"second","response":{"action":"accept"}%s}}`
		cancel = `{"op":"add","path":"/spec/cancel","value":{"requested":true%s}}`
		label  = "/metadata/labels/mcptask.dev~1owner"
	)
	for _, c := range []struct{ name, patch, refusal string }{
		{"answer without a name", fmt.Sprintf(add, ``), "spec.inputResponses[key=second].answeredBy: must name you"},
		{"answer with the own name", fmt.Sprintf(add, `,"answeredBy":{"principal":"`+alice+`","via":"kubectl"}`), ""},
		{"answer with another name", fmt.Sprintf(add, `,"answeredBy":{"principal":"bob@example.com","via":"kubectl"}`),
			"spec.inputResponses[key=second].answeredBy: must name you, that is via kubectl and principal " + alice},
		{"answer without an action", `{"op":"add","path":"/spec/inputResponses/-","value":{"key":"second","response":{"content":{}},"answeredBy":{"principal":"` + alice + `","via":"kubectl"}}}`,
			"spec.inputResponses[key=second].response: must have an action"},
		{"answer with another action", `{"op":"add","path":"/spec/inputResponses/-","value":{"key":"second","response":{"action":"yes please"},"answeredBy":{"principal":"` + alice + `","via":"kubectl"}}}`,
			"spec.inputResponses[key=second].response: must have an action"},
		{"answer with a list", `{"op":"add","path":"/spec/inputResponses/-","value":{"key":"second","response":{"action":"accept","content":[1]},"answeredBy":{"principal":"` + alice + `","via":"kubectl"}}}`,
			"spec.inputResponses[key=second].response: must have an action"},
		{"answer with an object in it", `{"op":"add","path":"/spec/inputResponses/-","value":{"key":"second","response":{"action":"accept","content":{"a":{"b":1}}},"answeredBy":{"principal":"` + alice + `","via":"kubectl"}}}`,
			"spec.inputResponses[key=second].response: must have an action"},
		{"answer with a field of its own", `{"op":"add","path":"/spec/inputResponses/-","value":{"key":"second","response":{"action":"accept","note":"x"},"answeredBy":{"principal":"` + alice + `","via":"kubectl"}}}`,
			"spec.inputResponses[key=second].response: must have an action"},
		{"answer with everything that a form can have", `{"op":"add","path":"/spec/inputResponses/-","value":{"key":"second","response":{"action":"accept","content":{"text":"a","number":1.5,"count":3,"yes":true,"nothing":null,"list":["a","b"]}},"answeredBy":{"principal":"` + alice + `","via":"kubectl"}}}`, ""},
		{"answer that leaves no room", `{"op":"add","path":"/spec/inputResponses/-","value":{"key":"second","response":{"action":"accept","content":{"a":"b","x":["` + strings.Repeat("x", 65536) + `"]}},"answeredBy":{"principal":"` + alice + `","via":"kubectl"}}}`,
			"spec.inputResponses: all answers of the task would have 65542 characters"},
		{"answer through something else", fmt.Sprintf(add, `,"answeredBy":{"principal":"`+alice+`","via":"mcp"}`), "spec.inputResponses[key=second].answeredBy: "},
		{"cancel without a name", fmt.Sprintf(cancel, ``), ""},
		{"cancel with the own name", fmt.Sprintf(cancel, `,"by":"`+alice+`"`), ""},
		{"cancel with another name", fmt.Sprintf(cancel, `,"by":"bob@example.com"`), "spec.cancel.by: "},
		{"change of the owner label", `{"op":"replace","path":"` + label + `","value":"0123456789abcdef0123456789abcdef"}`, "metadata.labels[mcptask.dev/owner]: "},
		{"removal of the owner label", `{"op":"remove","path":"` + label + `"}`, "metadata.labels[mcptask.dev/owner]: "},
		{"another label", `{"op":"add","path":"/metadata/labels/team","value":"a"}`, ""},
		{"ttl", `{"op":"add","path":"/spec/ttl","value":"1h"}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			patch := jsonPatch("[" + c.patch + "]")
			if err := person.Patch(t.Context(), bobsTask(t), patch); c.refusal == "" {
				expectAllowed(t, err)
			} else {
				expectDenied(t, err, c.refusal)
			}
			expectAllowed(t, bridge.Patch(t.Context(), bobsTask(t), patch))
		})
	}

	t.Run("what the bridge wrote does not stop others", func(t *testing.T) {
		task := bobsTask(t)
		expectAllowed(t, bridge.Patch(t.Context(), task, mergePatch(`{"spec":{"cancel":{"requested":true,"by":"kubernetes:bob@example.com"}}}`)))
		expectAllowed(t, person.Patch(t.Context(), task, mergePatch(`{"metadata":{"annotations":{"note":"seen"}}}`)))
	})

	t.Run("as many answers as a task can have", func(t *testing.T) {
		task := newTask(namespace)
		for i := range 255 {
			task.Spec.InputResponses = append(task.Spec.InputResponses, answer(fmt.Sprint("question-", i), &v1alpha1.Answerer{Principal: owner.Subject, Via: "mcp"}))
		}
		if err := bridge.Create(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		asks(t, task, "second")
		patch := func(by string) client.Patch {
			return jsonPatch("[" + fmt.Sprintf(add, `,"answeredBy":{"principal":"`+by+`","via":"kubectl"}`) + "]")
		}
		expectDenied(t, person.Patch(t.Context(), task.DeepCopy(), patch("bob@example.com")), "spec.inputResponses[key=second].answeredBy")
		expectAllowed(t, person.Patch(t.Context(), task.DeepCopy(), patch(alice)))
	})
}

// Where the API server has mutating policies, nobody needs to write the own name into an answer.
func TestAnswersAreSigned(t *testing.T) {
	namespace := newGuardedNamespace(t, mutatingPolicies)
	person, bridge := as(t, alice), as(t, bridgeUser)
	eventually(t, "the policy for answers", func() error {
		task := newTask(namespace)
		task.Spec.Owner, task.Spec.InputResponses = nil, []v1alpha1.InputResponse{answer("probe", nil)}
		return person.Create(t.Context(), task, client.DryRunAll)
	})
	signed := func(t *testing.T, task *v1alpha1.McpTask, want ...string) {
		t.Helper()
		if err := read(t, task); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range task.Spec.InputResponses {
			by := "nobody"
			if r.AnsweredBy != nil {
				by = r.AnsweredBy.Principal + " via " + r.AnsweredBy.Via
			}
			got = append(got, r.Key+" "+by+" "+canonical(t, r.Response.Raw))
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	task := unownedTask(t, namespace)
	asks(t, task, "a", "b", "c")
	expectAllowed(t, person.Patch(t.Context(), task, jsonPatch(
		`[{"op":"add","path":"/spec/inputResponses","value":[{"key":"a","response":{"action":"accept","content":{"n":null,"list":[1,"x"]}}}]}]`)))
	const first = "a " + alice + ` via kubectl {"action":"accept","content":{"list":[1,"x"],"n":null}}`
	signed(t, task, first)
	expectAllowed(t, person.Patch(t.Context(), task, jsonPatch(`[{"op":"add","path":"/spec/inputResponses/-","value":{"key":"b","response":{"action":"decline"}}}]`)))
	signed(t, task, first, "b "+alice+` via kubectl {"action":"decline"}`)
	expectDenied(t, person.Patch(t.Context(), task.DeepCopy(), jsonPatch(
		`[{"op":"add","path":"/spec/inputResponses/-","value":{"key":"c","response":{"action":"cancel"},"answeredBy":{"principal":"bob@example.com","via":"kubectl"}}}]`)), "answeredBy: must name you")
	refusedWith(t, person.Patch(t.Context(), task.DeepCopy(), jsonPatch(`[{"op":"add","path":"/spec/inputResponses/-","value":{"key":"a","response":{}}}]`)), "Duplicate value")

	unsigned := newTask(namespace)
	unsigned.Spec.InputResponses = []v1alpha1.InputResponse{answer("old", nil)}
	expectAllowed(t, bridge.Create(t.Context(), unsigned))
	asks(t, unsigned, "old", "new")
	expectAllowed(t, person.Patch(t.Context(), unsigned, jsonPatch(`[{"op":"add","path":"/spec/inputResponses/-","value":{"key":"new","response":{"action":"cancel"}}}]`)))
	signed(t, unsigned, `old nobody {"action":"accept"}`, "new "+alice+` via kubectl {"action":"cancel"}`)

	many := newTask(namespace)
	for i := range 255 {
		many.Spec.InputResponses = append(many.Spec.InputResponses, answer(fmt.Sprint("question-", i), nil))
	}
	expectAllowed(t, bridge.Create(t.Context(), many))
	asks(t, many, "last")
	expectAllowed(t, person.Patch(t.Context(), many, jsonPatch(`[{"op":"add","path":"/spec/inputResponses/-","value":{"key":"last","response":{"action":"cancel"}}}]`)))
	if by := many.Spec.InputResponses[255].AnsweredBy; by == nil || by.Principal != alice {
		t.Errorf("the last of many is signed by %+v", by)
	}
}

func TestExemptGroups(t *testing.T) {
	namespace := newGuardedNamespace(t)
	restorer := as(t, alice, restorers)
	expect := expectAllowed
	// The policies of a chart that is installed in this cluster hold as well, and exempt nobody of these tests.
	switch err := read(t, &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: chartRelease + "-task-status"}}); {
	case err == nil:
		expect = func(t *testing.T, err error) { t.Helper(); expectDenied(t, err) }
	case !apierrors.IsNotFound(err):
		t.Fatal(err)
	}
	tool := newTool(namespace, "tool")
	create(t, tool)
	expect(t, restorer.Create(t.Context(), newTask(namespace)))
	expect(t, patchStatus(t.Context(), restorer, unownedTask(t, namespace), `{"message":"restored"}`))
	expect(t, patchStatus(t.Context(), restorer, tool, `{"toolName":"restored"}`))
}
