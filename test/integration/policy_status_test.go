//go:build integration

package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// statusFields has a value for every field of a task's status.
var statusFields = map[string]string{
	"state":         `"working"`,
	"reason":        `"Running"`,
	"message":       `"it runs"`,
	"conditions":    `[{"type":"Finished","status":"False","reason":"Running","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]`,
	"progress":      `{"current":"1","total":"2"}`,
	"stateName":     `"indexing"`,
	"inputRequests": `[{"key":"k","method":"elicitation/create","params":{"message":"?"}}]`,
	"result":        `{"inline":{"content":[]},"size":2}`,
	"error":         `{"code":-32603,"message":"broken"}`,
	"jobRef":        `{"name":"j","uid":"1"}`,
	"podUIDs":       `["1"]`,
	"startedAt":     `"2026-01-01T00:00:00Z"`,
	"finishedAt":    `"2026-01-01T00:00:01Z"`,
	"expiresAt":     `"2026-01-02T00:00:00Z"`,
	"lastUpdatedAt": `"2026-01-01T00:00:01.000000Z"`,
	"usage":         `{"seconds":1}`,
	"runtime":       `[{"podUID":"1","stateName":"indexing"}]`,
}

func TestStatusOfTasks(t *testing.T) {
	namespace := newGuardedNamespace(t)
	controller, bridge := as(t, controllerUser), as(t, bridgeUser)

	t.Run("bridge writes runtime", func(t *testing.T) {
		task := unownedTask(t, namespace)
		expectAllowed(t, patchStatus(t.Context(), bridge, task, `{"runtime":`+statusFields["runtime"]+`}`))
		expectAllowed(t, patchStatus(t.Context(), controller, task, `{"message":"both write"}`))
		expectAllowed(t, patchStatus(t.Context(), bridge, task, `{"runtime":[{"podUID":"1"},{"podUID":"2"}]}`))
		expectAllowed(t, patchStatus(t.Context(), bridge, task, `{"runtime":null}`))
	})

	t.Run("bridge adds any other field", func(t *testing.T) {
		for field, value := range statusFields {
			if field == "runtime" {
				continue
			}
			task := unownedTask(t, namespace)
			err := patchStatus(t.Context(), bridge, task, fmt.Sprintf(`{"runtime":%s,%q:%s}`, statusFields["runtime"], field, value))
			expectDenied(t, err, "status."+field+": only the controller")
		}
	})

	t.Run("bridge changes or removes what the controller wrote", func(t *testing.T) {
		task := unownedTask(t, namespace)
		expectAllowed(t, patchStatus(t.Context(), controller, task, `{"message":"one","progress":{"current":"1"}}`))
		expectDenied(t, patchStatus(t.Context(), bridge, task, `{"message":"two"}`), "status.message")
		expectDenied(t, patchStatus(t.Context(), bridge, task, `{"message":null}`), "status.message")
		expectDenied(t, patchStatus(t.Context(), bridge, task, `{"progress":{"total":"9"}}`), "status.progress")
		expectDenied(t, patchStatus(t.Context(), bridge, task, `null`), "status.message", "status.progress")
	})

	t.Run("controller writes every field", func(t *testing.T) {
		for field, value := range statusFields {
			expectAllowed(t, patchStatus(t.Context(), controller, unownedTask(t, namespace), fmt.Sprintf(`{%q:%s}`, field, value)))
		}
	})

	t.Run("nobody else writes", func(t *testing.T) {
		task := unownedTask(t, namespace)
		for name, c := range map[string]client.Client{
			"a person":                    as(t, alice),
			"the cluster's administrator": k8s,
			"another service account":     as(t, alice, "system:serviceaccounts:"+chartNamespace),
		} {
			for _, field := range []string{"message", "runtime"} {
				err := patchStatus(t.Context(), c, task, fmt.Sprintf(`{%q:%s}`, field, statusFields[field]))
				if expectDenied(t, err, "status: only the controller"); t.Failed() {
					t.Fatalf("%s wrote %s", name, field)
				}
			}
		}
	})

	t.Run("the largest status is still read", func(t *testing.T) {
		task := unownedTask(t, namespace)
		requests := make([]v1alpha1.InputRequest, 256)
		for i := range requests {
			requests[i] = v1alpha1.InputRequest{Key: fmt.Sprint("question-", i), Method: "elicitation/create",
				Params: runtime.RawExtension{Raw: fmt.Appendf(nil, `{"message":%q}`, strings.Repeat("x", 4000))}}
		}
		raw, err := json.Marshal(requests)
		if err != nil {
			t.Fatal(err)
		}
		expectAllowed(t, patchStatus(t.Context(), controller, task, `{"inputRequests":`+string(raw)+`}`))
		expectAllowed(t, patchStatus(t.Context(), bridge, task, `{"runtime":`+statusFields["runtime"]+`}`))
		expectDenied(t, patchStatus(t.Context(), bridge, task, `{"inputRequests":null}`), "status.inputRequests")
	})
}

func TestEveryStatusFieldHasAValue(t *testing.T) {
	fields := reflect.VisibleFields(reflect.TypeFor[v1alpha1.McpTaskStatus]())
	for _, field := range fields {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if statusFields[name] == "" {
			t.Errorf("status.%s is missing in statusFields", name)
		}
	}
	if len(fields) != len(statusFields) {
		t.Errorf("a status has %d fields, statusFields %d", len(fields), len(statusFields))
	}
}

func TestStatusOfTools(t *testing.T) {
	namespace := newGuardedNamespace(t)
	tool := newTool(namespace, "tool")
	create(t, tool)
	expectAllowed(t, patchStatus(t.Context(), as(t, controllerUser), tool, `{"toolName":"n"}`))
	for _, c := range []client.Client{as(t, bridgeUser), as(t, alice), k8s} {
		expectDenied(t, patchStatus(t.Context(), c, tool, `{"toolName":"m"}`), "status: only the controller")
	}
}

// The policies must not stand in the way of those who clean up.
func TestPoliciesLetTheClusterCleanUp(t *testing.T) {
	namespace := newGuardedNamespace(t)
	controller, person := as(t, controllerUser), as(t, alice)

	t.Run("deletion", func(t *testing.T) {
		for _, c := range []client.Client{person, controller} {
			task := unownedTask(t, namespace)
			expectAllowed(t, patchStatus(t.Context(), controller, task, `{"message":"there is a status"}`))
			expectAllowed(t, c.Delete(t.Context(), task))
		}
	})

	t.Run("finalizers", func(t *testing.T) {
		task := unownedTask(t, namespace, func(task *v1alpha1.McpTask) { task.Finalizers = []string{"example.com/hold"} })
		expectAllowed(t, person.Delete(t.Context(), task))
		expectAllowed(t, person.Patch(t.Context(), task, mergePatch(`{"metadata":{"finalizers":null}}`)))
		eventuallyGone(t, task)
	})

	t.Run("garbage collection", func(t *testing.T) {
		owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner", Namespace: namespace}}
		create(t, owner)
		task := unownedTask(t, namespace, func(task *v1alpha1.McpTask) {
			task.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}
		})
		if err := k8s.Delete(t.Context(), owner); err != nil {
			t.Fatal(err)
		}
		eventuallyGone(t, task)
	})

	t.Run("deletion of the namespace", func(t *testing.T) {
		task := unownedTask(t, namespace)
		expectAllowed(t, patchStatus(t.Context(), controller, task, `{"message":"there is a status"}`))
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		if err := k8s.Delete(t.Context(), ns); err != nil {
			t.Fatal(err)
		}
		eventuallyGone(t, ns)
	})
}

func eventuallyGone(t *testing.T, object client.Object) {
	t.Helper()
	eventually(t, fmt.Sprintf("the end of the %T %s", object, object.GetName()), func() error {
		err := read(t, object)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it is still there"))
	})
}
