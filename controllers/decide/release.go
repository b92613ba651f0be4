package decide

import (
	"encoding/json"
	"fmt"
	"slices"
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

// Release is what is written on a Job when its Pod is given back, and when it goes on.
type Release struct {
	// Pod that was given back.
	Pod types.UID `json:"pod"`
	// Answers is how many of the task's questions had an answer then. Answers are only added: one more brings a Pod back.
	Answers int `json:"answers"`
	// Resumed says that the Job was resumed since: if it is suspended again, somebody else has done that.
	Resumed bool `json:"resumed,omitempty"`
}

// ReleaseOf is what was written on the Job when its Pod was given back; nil where nothing was. What cannot be read brings the Pod back
// with the first answer.
func ReleaseOf(job *batchv1.Job) *Release {
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
	given := ReleaseOf(job)
	return given != nil && !given.Resumed && isSuspended(job)
}

// GivenBack is the Pod that was given back last, "" where there is none.
func GivenBack(job *batchv1.Job) types.UID {
	if job == nil {
		return ""
	}
	if given := ReleaseOf(job); given != nil {
		return given.Pod
	}
	return ""
}

// Apart takes those out of the Pods of a Job that are no attempts, once they are told to end: the one that was given back, and those that
// go because the Job was suspended (letGo). What they exit with and where they went says nothing about the work.
func Apart(job *batchv1.Job, pods []corev1.Pod) (attempts, apart []corev1.Pod) {
	uid := GivenBack(job)
	for i := range pods {
		if pod := &pods[i]; pod.DeletionTimestamp != nil && uid != "" && pod.UID == uid || job != nil && letGo(job, pod) {
			apart = append(apart, *pod)
		} else {
			attempts = append(attempts, *pod)
		}
	}
	return attempts, apart
}

// PerhapsApart says whether a Pod that is being deleted may be no attempt although the Job does not show it: then the Job is an old version.
func PerhapsApart(job *batchv1.Job, attempts []corev1.Pod) bool {
	return job != nil && slices.ContainsFunc(attempts, func(pod corev1.Pod) bool {
		return pod.DeletionTimestamp != nil && (releases(job) || !podEnded(&pod) && !Ended(job) && !slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer))
	})
}

// releasedTooLate decides on work that handed over how it ended while its Pod was being given back: what finished first stands. An
// exit code is no such word, for the program may owe it to SIGTERM; nor is "cancelled", where nobody has cancelled.
func releasedTooLate(in *Input) *Verdict {
	given := GivenBack(in.Job)
	if given == "" || !Released(in.Job) && in.replaced(given) {
		return nil
	}
	if report := in.reportOf(given); report != nil {
		return saidItsEnd(in, in.Ending, report)
	}
	return nil
}

// saidItsEnd decides on work that handed over how it ended, whatever its Pod exits with; nil where it did not.
func saidItsEnd(in *Input, pod *corev1.Pod, report *v1alpha1.RuntimeReport) *Verdict {
	switch report.Outcome {
	case outcomeFailed:
		return toolRefused(report.Error)
	case outcomeResult:
		v := succeeded(in.Job, pod)
		v.Output.Reported = report.Result
		return v
	}
	return nil
}

// replaced says whether there is, or was, another Pod since, or the Pod itself goes on because the Job was resumed soon enough.
func (in *Input) replaced(given types.UID) bool {
	known := in.Task.Status.PodUIDs
	return in.Newest() != nil || len(known) > 0 && known[len(known)-1] != given
}

// released decides on work whose Pod was given back: a new answer brings one back, until then the task waits for it.
func released(in *Input) *Verdict {
	if !Released(in.Job) {
		return nil
	}
	given := ReleaseOf(in.Job)
	var words []string
	if report := in.reportOf(given.Pod); report != nil {
		words = messages(in.unanswered(report))
	}
	if len(words) > 0 && answers(in.Task) <= given.Answers {
		return awaiting(releasedWords(words))
	}
	v := working(v1alpha1.ReasonScheduling, "an answer has come; the work gets a Pod again, and begins anew")
	v.Release = &Release{Pod: given.Pod, Answers: answers(in.Task), Resumed: true}
	return v
}

// comingBack decides on work that goes on as soon as the Pod that it had before has gone.
func comingBack(in *Input) *Verdict {
	if in.Ending == nil || in.Newest() != nil || isSuspended(in.Job) {
		return nil
	}
	why := "the Job goes on"
	if in.Ending.UID == GivenBack(in.Job) {
		why = "an answer has come"
	}
	return working(v1alpha1.ReasonScheduling, fmt.Sprintf("%s; the work gets a Pod again when the Pod %s, %s, has ended (its grace period ends at %s)",
		why, in.Ending.Name, in.whyEnding(), clock(in.Ending.DeletionTimestamp.Time)))
}

// whyEnding is why the work has not the Pod any more that still ends.
func (in *Input) whyEnding() string {
	if in.Ending.UID == GivenBack(in.Job) {
		return "which was given back"
	}
	return "which goes since the Job was suspended"
}

// noPodKept begins the message of a task whose Pod was given back.
const noPodKept = "no Pod is kept until an answer comes: "

func releasedWords(questions []string) string { return noPodKept + strings.Join(questions, "; ") }

// SaysReleased says whether that is what the task says.
func SaysReleased(status *v1alpha1.McpTaskStatus) bool {
	return status.State == v1alpha1.TaskInputRequired && strings.HasPrefix(status.Message, noPodKept)
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
	return releases(job) && !parallel(job) &&
		job.Labels[LabelQueue] == "" && (job.Spec.ManagedBy == nil || *job.Spec.ManagedBy == batchv1.JobControllerName) &&
		!isSuspended(job) && job.DeletionTimestamp == nil &&
		condition(job, batchv1.JobFailureTarget) == nil && condition(job, batchv1.JobSuccessCriteriaMet) == nil
}

// releases says whether the tool wants no Pod to wait for people.
func releases(job *batchv1.Job) bool {
	return job.Annotations[v1alpha1.AnnotationWhileWaiting] == string(v1alpha1.WhileWaitingRelease)
}

// broughtBack says whether somebody else has resumed the Job although no answer has come: that stands until the next one.
func (in *Input) broughtBack() bool {
	given := ReleaseOf(in.Job)
	return given != nil && !given.Resumed && answers(in.Task) <= given.Answers
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

// Text is what is written on the Job.
func (r *Release) Text() (string, error) {
	text, err := json.Marshal(r)
	return string(text), err
}
