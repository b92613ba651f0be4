package controllers

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

func TestStatusPatchKeepsNullsAndTheVersion(t *testing.T) {
	before := &v1alpha1.McpTask{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"}}
	after := before.DeepCopy()
	after.Status.Reason = "Running"
	data, err := statusPatch{before}.Data(after)
	if want := `[{"op":"replace","path":"/metadata/resourceVersion","value":"7"},{"op":"add","path":"/status","value":{"reason":"Running"}}]`; err != nil || string(data) != want {
		t.Errorf("%v %s", err, data)
	}
	before = after.DeepCopy()
	after.Status.Result = &v1alpha1.TaskResult{Inline: &runtime.RawExtension{Raw: []byte(`{"structuredContent":{"n":null}}`)}}
	data, err = statusPatch{before}.Data(after)
	if want := `[{"op":"replace","path":"/metadata/resourceVersion","value":"7"},{"op":"add","path":"/status/result","value":{"inline":{"structuredContent":{"n":null}}}}]`; err != nil || string(data) != want {
		t.Errorf("%v %s", err, data)
	}
	before.Status.Runtime = []v1alpha1.RuntimeReport{{PodUID: "1"}}
	data, err = statusPatch{before}.Data(after)
	if want := `{"op":"add","path":"/status","value":{"reason":"Running","result":{"inline":{"structuredContent":{"n":null}}}}}]`; err != nil || !strings.HasSuffix(string(data), want) {
		t.Errorf("%v %s", err, data)
	}
	if _, err := (statusPatch{before}).Data(&corev1.Pod{}); err == nil {
		t.Error("a Pod is taken for a task")
	}
}
