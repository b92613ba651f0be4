package decide

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

func ttl(created, life time.Duration) func(*Input) {
	return func(in *Input) {
		in.Task.CreationTimestamp = at(created)
		in.Task.Spec.TTL = &metav1.Duration{Duration: life}
		in.Task.Status.Reason, in.Task.Status.Message = v1alpha1.ReasonRunning, "the tool is running on node1"
	}
}

func TestATaskThatOutlivesItsTTL(t *testing.T) {
	runs := pod(corev1.PodRunning, runningState)
	for name, tc := range map[string]struct {
		in     *Input
		state  v1alpha1.TaskState
		reason string
		stop   bool
	}{
		"runs on":                       {given(ttl(-time.Hour, time.Minute), runs), "failed", "Expired", true},
		"has time":                      {given(ttl(-time.Hour, 2*time.Hour), runs), "working", "Running", false},
		"has none":                      {given(runs), "working", "Running", false},
		"is cancelled":                  {given(ttl(-time.Hour, time.Minute), cancelAt(-time.Minute), runs), "cancelled", "Cancelled", true},
		"waits in a queue":              {given(ttl(-time.Hour, time.Minute), job(func(j *batchv1.Job) { yes := true; j.Spec.Suspend = &yes })), "failed", "Expired", true},
		"has ended, and nobody saw it":  {given(ttl(-time.Hour, time.Minute), jobCondition(batchv1.JobComplete, ""), pod(corev1.PodSucceeded, terminated(0, "Completed", -time.Second))), "completed", "Succeeded", false},
		"its Job was deleted meanwhile": {given(ttl(-time.Hour, time.Minute), func(in *Input) { in.Job, in.JobGone = nil, true }), "failed", "JobDeleted", false},
	} {
		t.Run(name, func(t *testing.T) {
			v := Decide(tc.in)
			if v.State != tc.state || v.Reason != tc.reason || v.Stop != tc.stop {
				t.Errorf("got %s/%s, stop %v: %s", v.State, v.Reason, v.Stop, v.Message)
			}
			if v.Reason == v1alpha1.ReasonExpired && (v.Error == nil || v.Error.Code != CodeInternalError || !strings.Contains(v.Message, "ttl of 1m0s passed while it was Running (the tool is running on node1)")) {
				t.Errorf("it says %q, %+v", v.Message, v.Error)
			}
		})
	}
	if v := Decide(given(ttl(-time.Hour, time.Hour+time.Second), runs)); v.Recheck != time.Second {
		t.Errorf("it is looked at again in %s", v.Recheck)
	}
	if v := Expired(&Input{Task: given(ttl(-time.Hour, time.Minute)).Task, Now: now}); v == nil || v.Reason != v1alpha1.ReasonExpired {
		t.Errorf("without a Job: %+v", v)
	}
}

func TestHowLongAFinishedTaskIsKept(t *testing.T) {
	hour := &metav1.Duration{Duration: time.Hour}
	for name, tc := range map[string]struct {
		state     v1alpha1.TaskState
		retention *v1alpha1.RetentionPolicy
		ttl       *metav1.Duration
		want      time.Duration // from its end, a minute after its creation
	}{
		"completed":                        {"completed", nil, nil, 24 * time.Hour},
		"failed":                           {"failed", nil, nil, 72 * time.Hour},
		"cancelled":                        {"cancelled", nil, nil, time.Hour},
		"completed, as the tool says":      {"completed", &v1alpha1.RetentionPolicy{Completed: hour}, nil, time.Hour},
		"failed, as the tool says":         {"failed", &v1alpha1.RetentionPolicy{Failed: hour}, nil, time.Hour},
		"cancelled, not at all":            {"cancelled", &v1alpha1.RetentionPolicy{Cancelled: &metav1.Duration{}}, nil, 0},
		"a ttl that lasts longer":          {"completed", &v1alpha1.RetentionPolicy{Completed: &metav1.Duration{}}, hour, 59 * time.Minute},
		"a ttl that is over before":        {"completed", nil, hour, 24 * time.Hour},
		"a retention of another end, only": {"completed", &v1alpha1.RetentionPolicy{Failed: hour}, nil, 24 * time.Hour},
	} {
		task := &v1alpha1.McpTask{Status: v1alpha1.McpTaskStatus{State: tc.state}}
		task.CreationTimestamp, task.Spec.TTL = at(-time.Minute), tc.ttl
		if got := ExpiresAt(task, tc.retention, now).Sub(now); got != tc.want {
			t.Errorf("%s: kept for %s, want %s", name, got, tc.want)
		}
	}
}
