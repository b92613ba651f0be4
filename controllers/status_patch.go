package controllers

import (
	"bytes"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// statusPatch changes the fields of a task's status that differ from those of before, if the task is still that version. It is a
// JSON patch (RFC 6902): to a merge patch a null in somebody's result, or question, would mean "remove this". Fields are only
// added: where one is to go the whole status is written anew, so that an old version is told by its number alone, as a conflict.
type statusPatch struct{ before *v1alpha1.McpTask }

// Type implements client.Patch.
func (statusPatch) Type() types.PatchType { return types.JSONPatchType }

type patchOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// Data implements client.Patch.
func (p statusPatch) Data(o client.Object) ([]byte, error) {
	task, ok := o.(*v1alpha1.McpTask)
	if !ok {
		return nil, fmt.Errorf("a patch of a task's status does not fit a %T", o)
	}
	before, err := fieldsOf(p.before.Status)
	if err != nil {
		return nil, err
	}
	after, err := fieldsOf(task.Status)
	if err != nil {
		return nil, err
	}
	operations := []patchOperation{{"replace", "/metadata/resourceVersion", p.before.ResourceVersion}}
	whole := len(before) == 0
	for name := range before {
		_, kept := after[name]
		whole = whole || !kept
	}
	if whole {
		return json.Marshal(append(operations, patchOperation{"add", "/status", after}))
	}
	for name, value := range after {
		if !bytes.Equal(before[name], value) {
			operations = append(operations, patchOperation{"add", "/status/" + name, value}) // of a field that is there: replaces
		}
	}
	return json.Marshal(operations)
}

func fieldsOf(status v1alpha1.McpTaskStatus) (map[string]json.RawMessage, error) {
	raw, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	return fields, json.Unmarshal(raw, &fields)
}
