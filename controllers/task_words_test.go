package controllers

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/decide"
)

// recorded is the folder of what hack/record saw on a real cluster.
const recorded = "decide/testdata"

// scene is a record of hack/record.
type scene struct {
	Taken  time.Time        `json:"taken"`
	Job    *batchv1.Job     `json:"job"`
	Pods   []corev1.Pod     `json:"pods"`
	Events []eventsv1.Event `json:"events"`
	Node   *corev1.Node     `json:"node"`
}

// observed is what the reconciler would make of the record, after so long: what its caches keep, and of the rest only what it would read.
func observed(t *testing.T, name string, after time.Duration) *decide.Input {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(recorded, name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var s scene
	if err := yaml.UnmarshalStrict(raw, &s); err != nil {
		t.Fatal(err)
	}
	task := &v1alpha1.McpTask{ObjectMeta: metav1.ObjectMeta{Name: s.Job.Name, Namespace: s.Job.Namespace, UID: "task-uid"}}
	s.Job.OwnerReferences = []metav1.OwnerReference{{UID: task.UID, Controller: ptr.To(true)}}
	if _, err := slimJob(s.Job); err != nil {
		t.Fatal(err)
	}
	for i := range s.Pods {
		if _, err := slimPod(&s.Pods[i]); err != nil {
			t.Fatal(err)
		}
	}
	in := &decide.Input{Task: task, Job: s.Job, Pods: s.Pods, Now: s.Taken.Add(after)}
	look := decide.WhatElse(in)
	if look.EventsOf != "" {
		in.Events = s.Events
	}
	if look.Node != "" {
		in.Node = s.Node
	}
	return in
}

func cancel(in *decide.Input) {
	in.Task.Spec.Cancel = &v1alpha1.CancelRequest{Requested: true, By: "ann", At: &metav1.Time{Time: in.Now}}
}

// ran: the task has seen its work run.
func ran(in *decide.Input) { in.Task.Status.StartedAt = &metav1.Time{Time: in.Now} }

// said: the task has seen a Pod, and said this of it.
func said(reason, message string) func(*decide.Input) {
	return func(in *decide.Input) {
		in.Task.Status.PodUIDs = []types.UID{"a Pod that is gone"}
		in.Task.Status.Reason, in.Task.Status.Message = reason, message
	}
}

func mayRetry(in *decide.Input) { in.Job.Spec.BackoffLimit = ptr.To[int32](3) }

func nodeGone(in *decide.Input) { in.Node, in.NodeGone = nil, true }

// A message answers "why?" to somebody who knows only Kubernetes. … stands for what differs from one recording to the next.
func TestWordsOfWhatKubernetesShows(t *testing.T) {
	const later = 6 * time.Minute // past the start deadline
	for _, tc := range []struct {
		record  string
		after   time.Duration
		change  func(*decide.Input)
		state   v1alpha1.TaskState
		reason  string
		message string
	}{
		{"suspended", 0, nil, "working", "Queued", "the Job is suspended: it starts when its spec.suspend is set to false"},
		{"suspended", later, nil, "working", "Queued", "the Job is suspended: it starts when its spec.suspend is set to false"},
		{"queued-by-kueue", later, nil, "working", "Queued", "the Job waits in the queue gpu of Kueue; its Workload (job-task-…) says what for"},

		{"no-cpu", 0, nil, "working", "Scheduling", "the Pod task-1 fits no node: 0/2 nodes are available: 2 Insufficient cpu. …"},
		{"no-cpu", later, nil, "failed", "Unschedulable", "the work could not start within 5m (startDeadline): the Pod task-1 fits no node: 0/2 nodes are available: 2 Insufficient cpu. …"},
		{"no-such-node", later, nil, "failed", "Unschedulable", "the work could not start within 5m (startDeadline): the Pod task-1 fits no node: …didn't match Pod's node affinity/selector…"},
		{"no-claim", later, nil, "failed", "Unschedulable", `the work could not start within 5m (startDeadline): the Pod task-1 fits no node: …persistentvolumeclaim "data" not found…`},
		{"unbound-claim", later, nil, "failed", "Unschedulable", "the work could not start within 5m (startDeadline): the Pod task-1 fits no node: …pod has unbound immediate PersistentVolumeClaims…"},
		{"scheduling-gate", 0, nil, "working", "Scheduling", "the Pod task-1 is held back by a scheduling gate: …"},
		{"node-taints", later, nil, "failed", "Unschedulable", "the work could not start within 5m (startDeadline): the Pod task-1 fits no node: …untolerated taint…"},

		{"pull-fails", 0, nil, "working", "Pulling", `the image registry.invalid/nothing:1 of the container work cannot be pulled (ErrImagePull): failed to pull and unpack image "registry.invalid/nothing:1": …`},
		{"pull-backs-off", 0, nil, "working", "Pulling", `the image registry.invalid/nothing:1 of the container work cannot be pulled (ErrImagePull): failed to pull and unpack image "registry.invalid/nothing:1": …`},
		{"pull-backs-off", later, nil, "failed", "ImagePullFailed", "the work could not start within 5m (startDeadline): the image registry.invalid/nothing:1 of the container work cannot be pulled (ErrImagePull): …"},
		{"invalid-image-name", later, nil, "failed", "ImagePullFailed", "the work could not start within 5m (startDeadline): the image Not/An:Image:Name of the container work cannot be pulled (InvalidImageName): …must be lowercase"},
		{"image-never-pulled", later, nil, "failed", "ImagePullFailed", "the work could not start within 5m (startDeadline): the image registry.invalid/nothing:1 of the container work cannot be pulled (ErrImageNeverPull): …is not present with pull policy of Never"},
		{"no-configmap", 0, nil, "working", "Pulling", `the container work cannot start (CreateContainerConfigError): configmap "settings" not found`},
		{"no-configmap", later, nil, "failed", "StartFailed", `the work could not start within 5m (startDeadline): the container work cannot start (CreateContainerConfigError): configmap "settings" not found`},
		{"no-secret-key", later, nil, "failed", "StartFailed", "the work could not start within 5m (startDeadline): the container work cannot start (CreateContainerConfigError): couldn't find key password in Secret tools/database"},
		{"no-configmap-volume", 0, nil, "working", "Pulling", "the node node… prepares the volumes and the network of the Pod task-1"},
		{"no-configmap-volume", time.Minute, nil, "working", "Pulling", `the node node… cannot start the Pod task-1: MountVolume.SetUp failed for volume "settings" : configmap "settings" not found`},
		{"no-configmap-volume", later, nil, "failed", "StartFailed", `the work could not start within 5m (startDeadline): the node node… cannot start the Pod task-1: MountVolume.SetUp failed for volume "settings" : configmap "settings" not found`},
		{"no-secret-volume", later, nil, "failed", "StartFailed", `the work could not start within 5m (startDeadline): the node node… cannot start the Pod task-1: MountVolume.SetUp failed for volume "keys" : secret "keys" not found`},
		{"no-program", 0, nil, "failed", "StartFailed", `the container work could not be started (StartError): …exec: "/nothing": stat /nothing: no such file or directory`},

		{"no-service-account", 0, nil, "working", "Scheduling", "the Job has no Pod yet; kube-controller-manager makes it"},
		{"no-service-account", later, nil, "failed", "StartFailed", `the work could not start within 5m (startDeadline): the API server does not take the Job's Pod: error looking up service account tools/nobody: serviceaccount "nobody" not found`},
		{"quota-exceeded", time.Minute, nil, "working", "Scheduling", "the API server does not take the Job's Pod: exceeded quota: team, requested: pods=1, used: pods=0, limited: pods=0"},
		{"quota-exceeded", later, nil, "failed", "StartFailed", "the work could not start within 5m (startDeadline): the API server does not take the Job's Pod: exceeded quota: team, requested: pods=1, used: pods=0, limited: pods=0"},
		{"pod-security", later, nil, "failed", "StartFailed", `the work could not start within 5m (startDeadline): the API server does not take the Job's Pod: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false…`},
		{"policy-denies", later, nil, "failed", "StartFailed", "the work could not start within 5m (startDeadline): the API server does not take the Job's Pod: ValidatingAdmissionPolicy 'tools' with binding 'tools' denied request: every Pod needs a cost centre"},
		{"webhook-unreachable", later, nil, "failed", "StartFailed", `the work could not start within 5m (startDeadline): the API server does not take the Job's Pod: Internal error occurred: failed calling webhook "pods.example.test": …service "gone" not found`},
		{"node-refuses", 0, nil, "failed", "StartFailed", "the node node1 refused the Pod task-1 (OutOfcpu): …Node didn't have enough resource: cpu…"},

		{"init-container-runs", 0, nil, "working", "Pulling", "the init container migrate runs since 2026-…; the tool starts after it"},
		{"init-container-failed", 0, nil, "failed", "StartFailed", "the tool never ran: the init container migrate ended with exit code 2: no such table: ledger"},
		{"init-out-of-memory", 0, nil, "failed", "StartFailed", "the tool never ran: the init container load was killed: it used more memory than its limit of 64Mi"},

		{"succeeded", 0, nil, "completed", "Succeeded", "the tool has returned its result"},
		{"exit-code", 0, nil, "completed", "ToolError", "the tool ended with exit code 3"},
		{"out-of-memory", 0, nil, "completed", "OOMKilled", "the tool was killed: it used more memory than its limit of 64Mi"},
		{"retrying", 0, nil, "working", "Retrying", "attempt 1 of 2 ended with exit code 4: no route; the Job may try again"},
		{"attempts-used-up", 0, nil, "completed", "ToolError", "the tool ended with exit code 4, at the last of 2 attempts"},
		{"failure-policy", 0, nil, "completed", "ToolError", "the tool ended with exit code 42; the Job's podFailurePolicy allows no further attempt"},
		{"job-deadline", 0, ran, "failed", "DeadlineExceeded", "the Job reached its time limit (activeDeadlineSeconds) of 5 s and was stopped"},
		{"job-deadline", 0, said("Pulling", "the image x cannot be pulled"), "failed", "DeadlineExceeded",
			"the Job reached its time limit (activeDeadlineSeconds) of 5 s and was stopped; the work had not started (before that: the image x cannot be pulled)"},
		{"pod-deadline", 0, nil, "failed", "DeadlineExceeded", "the Pod task-1 reached its time limit (activeDeadlineSeconds) of 5 s and was stopped; the work ended with exit code 143"},

		{"disk-full", 0, nil, "failed", "Evicted", `the node node… evicted the Pod task-1: Usage of EmptyDir volume "scratch" exceeds the limit "1Mi"`},
		{"being-evicted", 0, nil, "working", "Evicted", "the Pod task-1 was evicted from the node node2, as a drain does: Eviction API: evicting (its grace period ends at 2026-…)"},
		{"evicted", 0, nil, "working", "Evicted", "the Pod task-1 was evicted from the node node2, as a drain does: Eviction API: evicting"},
		{"preempted", 0, nil, "working", "Evicted", "the Pod task-1 was preempted by one of higher priority: default-scheduler: preempting to accommodate a higher priority pod"},
		{"tainted", 0, nil, "working", "Evicted", "the Pod task-1 was evicted from the node node2, which has a taint that it does not tolerate: Taint manager: deleting due to NoExecute taint"},
		{"pod-deleted", 0, nil, "working", "Evicted", "the Pod task-1 was deleted (its grace period ends at 2026-…)"},
		{"pod-gone", 0, said("Evicted", "the Pod task-1 was preempted"), "failed", "Evicted", "the Pod task-1 was preempted"},
		{"pod-gone", 0, said("Running", "the tool is running on node1"), "failed", "Evicted",
			"the Pod was deleted, and with it whatever it could tell; the Job failed (BackoffLimitExceeded: Job has reached the specified backoff limit) (before that: the tool is running on node1)"},
		{"pod-gone", 0, nil, "failed", "JobFailed", "the Job failed (BackoffLimitExceeded: Job has reached the specified backoff limit) and none of its Pods is left to tell more"},

		{"node-not-ready", 0, nil, "working", "Running", "the node node2 has not been ready since 2026-…: Kubelet stopped posting node status; whether the tool still runs there is not known"},
		{"node-lost", 0, nil, "failed", "NodeLost", "the node node2 has not been ready since 2026-…: Kubelet stopped posting node status; what became of the work in the Pod task-1 is not known"},
		{"node-lost", 0, mayRetry, "working", "Retrying", "the node node2 has not been ready since 2026-…; the Job may try again when the node is back or removed"},
		{"node-lost", 0, cancel, "cancelled", "Cancelled", "cancelled by ann; the node node2 has not been ready since 2026-…"},
		{"node-lost", 0, nodeGone, "failed", "NodeLost", "the node node2 is gone; what became of the work in the Pod task-1 is not known"},
		{"node-lost-at-deadline", 0, nil, "failed", "NodeLost", "the node node2 has not been ready since 2026-…; the Job's time limit of 20 s has passed"},

		{"mesh-runs-on", 0, nil, "working", "Finishing", "the tool has ended; the container mesh beside it still runs; the Pod is asked to end at 2026-…"},
		{"mesh-runs-on", time.Minute, nil, "completed", "Succeeded", "the tool has returned its result; the container mesh beside it still runs; the Pod is asked to end"},
		{"mesh-runs-on", time.Minute, cancel, "working", "Cancelling", "the tool was asked to end and has its grace period (terminationGracePeriodSeconds) to do so"},
		{"mesh-runs-on-after-failure", time.Minute, nil, "completed", "ToolError", "the tool ended with exit code 3; the container mesh beside it still runs; the Pod is asked to end"},
		{"mesh-runs-on-after-failure", time.Minute, mayRetry, "working", "Retrying", "an attempt ended with exit code 3; the container mesh beside it still runs; the Pod is asked to end, then the Job may try again"},
	} {
		t.Run(tc.record+"/"+string(tc.state), func(t *testing.T) {
			in := observed(t, tc.record, tc.after)
			if tc.change != nil {
				tc.change(in)
			}
			got := decide.Decide(in)
			if got.State != tc.state || got.Reason != tc.reason {
				t.Errorf("got %s/%s, want %s/%s", got.State, got.Reason, tc.state, tc.reason)
			}
			pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(tc.message), "…", ".*") + "$"
			if said := decide.OneLine(got.Message); !regexp.MustCompile(pattern).MatchString(said) {
				t.Errorf("said %q\nwant %q", said, tc.message)
			}
		})
	}
}

// Each record is decided from: none is there for nothing.
func TestEveryRecordIsUsed(t *testing.T) {
	test, err := os.ReadFile("task_words_test.go")
	if err != nil {
		t.Fatal(err)
	}
	records, err := filepath.Glob(filepath.Join(recorded, "*.yaml"))
	if err != nil || len(records) == 0 {
		t.Fatal("no records", err)
	}
	for _, record := range records {
		if name := strings.TrimSuffix(filepath.Base(record), ".yaml"); !strings.Contains(string(test), `{"`+name+`", `) {
			t.Errorf("no row for %s", record)
		}
	}
}

// A healthy task costs no reads beyond the watches: nothing else is looked at before a start takes long, and not once it has begun. A
// further attempt is a start.
func TestNothingElseIsReadOfAHealthyTask(t *testing.T) {
	for _, name := range []string{"suspended", "queued-by-kueue", "no-cpu", "pull-backs-off", "no-configmap", "succeeded", "exit-code", "mesh-runs-on"} {
		t.Run(name, func(t *testing.T) {
			if look := decide.WhatElse(observed(t, name, time.Minute)); look != (decide.Look{}) {
				t.Errorf("reads %+v", look)
			}
		})
	}
	for name, want := range map[string]bool{"no-configmap-volume": true, "quota-exceeded": true} {
		in := observed(t, name, 0)
		in.Now = in.Job.CreationTimestamp.Add(time.Second)
		if look := decide.WhatElse(in); look.EventsOf != "" {
			t.Errorf("%s: reads Events after a second", name)
		}
		in.Now = in.Job.CreationTimestamp.Add(10 * time.Second)
		if look := decide.WhatElse(in); look.EventsOf != "" != want {
			t.Errorf("%s: reads %+v after ten seconds", name, look)
		}
	}
	for _, late := range []bool{false, true} {
		in := observed(t, "retrying", 0)
		in.Waiting = in.Pods[0].Status.ContainerStatuses[0].State.Terminated.FinishedAt.Time
		in.Now = in.Waiting.Add(14 * time.Second) // it is due after ten
		if late {
			in.Now = in.Now.Add(2 * time.Second)
		}
		if look := decide.WhatElse(in); look.EventsOf != "" != late {
			t.Errorf("retrying, late %v: reads %+v", late, look)
		}
	}
}
