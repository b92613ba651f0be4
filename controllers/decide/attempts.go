package decide

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
)

// lastWasMissed says whether the Job that has ended counts an attempt of which nobody has seen the Pod, and that was the last one: what
// the attempts before it put out is not its result. It was if the Job came to its end later than it would have with the newest Pod
// that is there.
func (in *Input) lastWasMissed() bool {
	if in.Job == nil || len(in.Pods) == 0 || parallel(in.Job) {
		return false
	}
	counted := int(in.Job.Status.Succeeded + in.Job.Status.Failed)
	for i := range in.Pods {
		if !slices.Contains(in.Task.Status.PodUIDs, in.Pods[i].UID) {
			counted--
		}
	}
	if counted <= len(in.Task.Status.PodUIDs) {
		return false
	}
	end := workEnd(in.Job, in.Newest())
	for _, kind := range []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed, batchv1.JobComplete} {
		if c := condition(in.Job, kind); c != nil && end != nil {
			return c.LastTransitionTime.Sub(end.FinishedAt.Time) >= firstBackoff
		}
	}
	return false
}
