//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// foreignJob is a Job of somebody else, with a Pod, that has the name of the task.
func foreignJob(t *testing.T, task *v1alpha1.McpTask) *batchv1.Job {
	t.Helper()
	job := jobOf(task)
	job.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, SchedulerName: "nobody.mcptask.dev", Containers: []corev1.Container{{Name: "c", Image: "example.test/image"}}}
	create(t, job)
	eventually(t, "it has a Pod", func() error {
		if err := read(t, job); err != nil || job.Status.Active != 1 {
			return fmt.Errorf("%+v, %v", job.Status, err)
		}
		return nil
	})
	return job
}

// Neither the task's end nor its deletion touches the Job of the same name.
func TestAJobOfSomebodyElseIsNamedAndLeftAlone(t *testing.T) {
	ns := newNamespace(t)
	o := startOperator(t, ns, faults{})
	tool := readyTool(t, ns, func(s *v1alpha1.McpToolSpec) { s.Retention.Failed = lasting(3 * time.Second) })
	task := callOf(tool, `{}`)
	job := foreignJob(t, task)
	before := job.DeepCopy()
	earlier := callOf(newTool(ns, "none"), `{}`)
	create(t, earlier)
	awaitState(t, earlier, v1alpha1.TaskFailed, v1alpha1.ReasonToolNotFound)
	eventually(t, "the controller has been at work for a while", func() error {
		if since := time.Since(earlier.Status.FinishedAt.Time); since < 2*time.Second {
			return fmt.Errorf("since %s", since)
		}
		return nil
	})
	create(t, task)
	awaitState(t, task, v1alpha1.TaskFailed, v1alpha1.ReasonJobConflict)
	want := "a Job named " + job.Name + " exists and does not belong to this task"
	if e := task.Status.Error; task.Status.Message != want || e == nil || e.Code != -32603 || e.Message != want {
		t.Errorf("message %q, error %+v", task.Status.Message, e)
	}
	awaitGone(t, "the task, whose retention has passed,", task)
	var pods corev1.PodList
	if err := k8s.List(t.Context(), &pods, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 1 || pods.Items[0].DeletionTimestamp != nil || pods.Items[0].Spec.ActiveDeadlineSeconds != nil {
		t.Errorf("its Pods are %+v", pods.Items)
	}
	// Not even its status has changed: the version is the same.
	if err := read(t, job); err != nil || job.UID != before.UID || job.ResourceVersion != before.ResourceVersion {
		t.Errorf("%v, it was changed from\n%+v to\n%+v", err, before, job)
	}
	for _, wrote := range o.written() { // it tried to make the Job, and that is all
		if strings.HasSuffix(wrote, "Pod") || strings.HasSuffix(wrote, "Job") && !strings.HasPrefix(wrote, "create ") {
			t.Errorf("the controller wrote %v", o.written())
		}
	}
}

// The Job of somebody else is there before the controller is, and has a Pod: it is not taken for one that the task had and lost.
func TestAJobOfSomebodyElseIsNotTakenForALostOne(t *testing.T) {
	ns := newNamespace(t)
	task := callOf(readyTool(t, ns, nil), `{}`)
	foreignJob(t, task)
	create(t, task)
	startOperator(t, ns, faults{})
	awaitEnd(t, task)
	if task.Status.Reason != v1alpha1.ReasonJobConflict {
		t.Errorf("%s/%s: %s", task.Status.State, task.Status.Reason, task.Status.Message)
	}
}
