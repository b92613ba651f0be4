package decide

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// Settle is how long a Pod must have nothing to do but wait for answers before it is given back: a quick answer costs no Pod.
const Settle = 10 * time.Second

// LabelQueue, on a Job, names the queue of Kueue that suspends and resumes it: such a Job is nobody else's to suspend.
const LabelQueue = "kueue.x-k8s.io/queue-name"

// Release is what is written on a Job when its Pod is given back.
type Release struct {
	// Pod that was given back.
	Pod types.UID `json:"pod"`
	// Answers is how many of the task's questions had an answer then. Answers are only added: one more brings a Pod back.
	Answers int `json:"answers"`
}

// releaseOf is what was written on the Job when its Pod was given back; nil where nothing was. What cannot be read brings the Pod back
// with the first answer.
func releaseOf(job *batchv1.Job) *Release {
	text, written := job.Annotations[v1alpha1.AnnotationReleased]
	if !written {
		return nil
	}
	r := &Release{}
	if err := json.Unmarshal([]byte(text), r); err != nil {
		return &Release{}
	}
	return r
}

// Released says whether the Job is suspended because its Pod was given back, and not by somebody else.
func Released(job *batchv1.Job) bool {
	return job.Spec.Suspend != nil && *job.Spec.Suspend && releaseOf(job) != nil
}

// givenBack says whether the Pod is the one that was given back: that it ends says nothing about the work.
func givenBack(job *batchv1.Job, pod *corev1.Pod) bool {
	if job == nil || pod == nil {
		return false
	}
	given := releaseOf(job)
	return given != nil && given.Pod == pod.UID
}

// releasedTooLate decides on work that handed over how it ended while its Pod was being given back: what finished first stands. An
// exit code is no such word, for the program may owe it to SIGTERM; nor is "cancelled", where nobody has cancelled.
func releasedTooLate(in *Input) *Verdict {
	if in.Job == nil || !Released(in.Job) {
		return nil
	}
	given := releaseOf(in.Job).Pod
	report := in.reportOf(given)
	switch {
	case report == nil:
		return nil
	case report.Outcome == outcomeFailed:
		return toolRefused(report.Error)
	case report.Outcome == outcomeResult:
		v := succeeded(in.Job, in.pod(given))
		v.Output.Reported = report.Result
		return v
	}
	return nil
}

// released decides on work whose Pod was given back: a new answer brings one back, until then the task waits for it.
func released(in *Input) *Verdict {
	if !Released(in.Job) {
		return nil
	}
	given := releaseOf(in.Job)
	var words []string
	if report := in.reportOf(given.Pod); report != nil {
		words = messages(in.unanswered(report))
	}
	if len(words) > 0 && answers(in.Task) <= given.Answers {
		return awaiting(releasedWords(words))
	}
	v := working(v1alpha1.ReasonScheduling, "an answer has come; the work gets a Pod again, and begins anew")
	v.Resume = true
	return v
}

func releasedWords(questions []string) string {
	return "no Pod is kept until an answer comes: " + strings.Join(questions, "; ")
}

// release adds to the verdict on work that asks that its Pod is to be given back, once there is nothing left for it but to wait.
func (in *Input) release(v *Verdict, questions []string) {
	since, may := in.idleSince()
	if !may {
		return
	}
	if wait := since.Add(Settle).Sub(in.Now); wait > 0 {
		v.Recheck = wait
		return
	}
	v.Release = &Release{Pod: in.Newest().UID, Answers: answers(in.Task)}
	v.Message = releasedWords(questions)
}

// idleSince is since when the newest Pod has had nothing to do but wait, as far as it is known: since it asked, told or was answered
// last. It says no where the Pod is not one to be given back.
func (in *Input) idleSince() (time.Time, bool) {
	pod := in.Newest()
	report := in.Report(pod)
	if report == nil || report.ReportedAt == nil || report.Outcome != "" || !releasable(in.Job) || in.broughtBack() {
		return time.Time{}, false
	}
	if s := workStatus(in.Job, pod); s == nil || s.State.Running == nil || len(in.open(pod)) == 0 {
		return time.Time{}, false
	}
	since := report.ReportedAt.Time
	later := func(t *metav1.Time) {
		if t != nil && t.After(since) {
			since = t.Time
		}
	}
	for _, asked := range report.InputRequests {
		if answer := Answer(in.Task, asked.Key); answer != nil {
			later(answer.AnsweredAt)
		}
	}
	for i := range in.Task.Status.InputRequests {
		later(in.Task.Status.InputRequests[i].RequestedAt)
	}
	return since, true
}

// releasable says whether the Job's Pod may be given back: its tool wants that, it has one Pod, and nobody else rules over its
// suspension.
func releasable(job *batchv1.Job) bool {
	return job.Annotations[v1alpha1.AnnotationWhileWaiting] == string(v1alpha1.WhileWaitingRelease) && !parallel(job) &&
		job.Labels[LabelQueue] == "" && (job.Spec.ManagedBy == nil || *job.Spec.ManagedBy == batchv1.JobControllerName) &&
		(job.Spec.Suspend == nil || !*job.Spec.Suspend) && job.DeletionTimestamp == nil &&
		condition(job, batchv1.JobFailureTarget) == nil && condition(job, batchv1.JobSuccessCriteriaMet) == nil
}

// broughtBack says whether somebody else has resumed the Job although no answer has come: that stands until the next one.
func (in *Input) broughtBack() bool {
	given := releaseOf(in.Job)
	return given != nil && answers(in.Task) <= given.Answers
}

// answers is how many of the task's questions have an answer.
func answers(task *v1alpha1.McpTask) (n int) {
	for i := range task.Status.InputRequests {
		if Answer(task, task.Status.InputRequests[i].Key) != nil {
			n++
		}
	}
	return n
}

// pod is the Pod with that UID, nil where it is gone.
func (in *Input) pod(uid types.UID) *corev1.Pod {
	for i := range in.Pods {
		if in.Pods[i].UID == uid {
			return &in.Pods[i]
		}
	}
	return nil
}

// String is what is written on the Job.
func (r *Release) String() string { return fmt.Sprintf(`{"pod":%q,"answers":%d}`, r.Pod, r.Answers) }
