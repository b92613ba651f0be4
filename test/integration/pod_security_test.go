//go:build integration

package integration

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What a namespace forbids Pods it forbids a tool's too, and the tool says so: it is not Ready, so nobody is offered it.
func TestPodSecurityOfTheNamespaceHoldsForTools(t *testing.T) {
	namespace := newNamespace(t)
	enforced := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := k8s.Patch(t.Context(), enforced, mergePatch(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)); err != nil {
		t.Fatal(err)
	}
	runController(t, namespace)
	for name, tc := range map[string]struct {
		change func(*corev1.PodSpec)
		words  string
	}{
		"root":      {func(*corev1.PodSpec) {}, "runAsNonRoot"},
		"host-path": {func(p *corev1.PodSpec) { p.Volumes = []corev1.Volume{hostPath("/")} }, "hostPath"},
		"host-net":  {func(p *corev1.PodSpec) { p.HostNetwork = true }, "hostNetwork"},
		"privileged": {func(p *corev1.PodSpec) {
			p.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
		}, "privileged"},
	} {
		tool := newTool(namespace, name)
		tc.change(&tool.Spec.JobTemplate.Spec.Template.Spec)
		create(t, tool)
		ready := awaitReady(t, tool)
		if ready.Status != metav1.ConditionFalse || !strings.Contains(ready.Message, "PodSecurity") || !strings.Contains(ready.Message, tc.words) {
			t.Errorf("%s: Ready is %s: %s", name, ready.Status, ready.Message)
		}
	}
}

func hostPath(path string) corev1.Volume {
	return corev1.Volume{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}}
}
