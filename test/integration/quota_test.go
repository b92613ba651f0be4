//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

func TestFullQuotaDelaysATaskAndSaysSo(t *testing.T) {
	ns := newNamespace(t)
	quota := noMore(t, ns, "no-jobs", "count/jobs.batch")
	runController(t, ns)
	tool := newTool(ns, "tool")
	create(t, tool)
	if ready := awaitReady(t, tool); ready.Status != metav1.ConditionTrue {
		t.Errorf("a full quota is no fault of the tool: %s", ready.Message)
	}
	task := callOf(tool, `{}`)
	create(t, task)
	awaitState(t, task, v1alpha1.TaskWorking, v1alpha1.ReasonQueued)
	if !strings.Contains(task.Status.Message, "exceeded quota: no-jobs") {
		t.Errorf("message %q", task.Status.Message)
	}
	if err := k8s.Delete(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	awaitPod(t, task)
}

// noMore is a quota in force that allows none of a resource.
func noMore(t *testing.T, namespace, name string, of corev1.ResourceName) *corev1.ResourceQuota {
	t.Helper()
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{of: resource.MustParse("0")}},
	}
	create(t, quota)
	eventually(t, "the quota is in force", func() error {
		if err := read(t, quota); err != nil {
			return err
		}
		if len(quota.Status.Hard) == 0 {
			return fmt.Errorf("it has no status")
		}
		return nil
	})
	return quota
}
