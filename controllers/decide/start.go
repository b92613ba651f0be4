package decide

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// DefaultStartDeadline is how long the cluster may take to start the work where the tool does not say.
const DefaultStartDeadline = 5 * time.Minute

// startOverdue ends what cannot start. Time in a queue does not count: a suspended Job is not late. Nor is one late that
// has run before and has no Pod: the Job's own policy says when the next attempt is made. What has asked a question runs.
func startOverdue(in *Input) *Verdict {
	if suspended(in) != nil {
		return nil
	}
	if n := len(in.Pods); n > 0 && StartedAt(in.Job, in.Pods[n-1:]) != nil || n == 0 && in.Task.Status.StartedAt != nil {
		return nil
	}
	if in.hasAsked(in.Newest()) {
		return nil
	}
	if left := startLeft(in); left > 0 {
		return nil
	}
	obstacle := startObstacle(in)
	v := failed(obstacle.reason, fmt.Sprintf("the work could not start within %s: %s", startDeadline(in), obstacle.words))
	v.Stop = true
	return v
}

// starting decides on work that is on its way to a running container.
func starting(in *Input) *Verdict {
	obstacle := startObstacle(in)
	v := working(obstacle.phase, obstacle.words)
	v.Recheck = max(startLeft(in), time.Second)
	return v
}

func startDeadline(in *Input) time.Duration {
	if d, err := time.ParseDuration(in.Job.Annotations[v1alpha1.AnnotationStartDeadline]); err == nil && d > 0 {
		return d
	}
	return DefaultStartDeadline
}

func startLeft(in *Input) time.Duration {
	return startBase(in).Add(startDeadline(in)).Sub(in.Now)
}

// startBase is when the cluster could begin to start the work: a Job's startTime is set anew when it is resumed, and a
// further attempt begins with its Pod.
func startBase(in *Input) time.Time {
	base := in.Job.CreationTimestamp.Time
	if in.Job.Status.StartTime != nil {
		base = in.Job.Status.StartTime.Time
	}
	if n := len(in.Pods); n > 1 || n == 1 && in.Task.Status.StartedAt != nil {
		if created := in.Pods[n-1].CreationTimestamp.Time; created.After(base) {
			base = created
		}
	}
	return base
}

// obstacle is what keeps the work from starting: the reason while it waits, the reason once it has
// waited too long, and the cause in words.
type obstacle struct{ phase, reason, words string }

func startObstacle(in *Input) obstacle {
	if len(in.Pods) == 0 {
		return obstacle{v1alpha1.ReasonScheduling, v1alpha1.ReasonStartFailed, "the Job has no Pod yet"}
	}
	pod := &in.Pods[len(in.Pods)-1]
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return obstacle{v1alpha1.ReasonScheduling, v1alpha1.ReasonUnschedulable, fmt.Sprintf("the Pod %s fits no node: %s", pod.Name, c.Message)}
		}
	}
	if pod.Spec.NodeName == "" {
		return obstacle{v1alpha1.ReasonScheduling, v1alpha1.ReasonUnschedulable, fmt.Sprintf("the Pod %s waits for a node", pod.Name)}
	}
	statuses := append(append([]corev1.ContainerStatus{}, pod.Status.InitContainerStatuses...), pod.Status.ContainerStatuses...)
	for _, s := range statuses {
		w := s.State.Waiting
		if w == nil {
			continue
		}
		switch w.Reason {
		case "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed":
			return obstacle{v1alpha1.ReasonPulling, v1alpha1.ReasonImagePullFailed, fmt.Sprintf("the image %s of the container %s cannot be pulled (%s): %s", s.Image, s.Name, w.Reason, w.Message)}
		case "", "ContainerCreating", "PodInitializing":
		default:
			return obstacle{v1alpha1.ReasonPulling, v1alpha1.ReasonStartFailed, fmt.Sprintf("the container %s cannot start (%s): %s", s.Name, w.Reason, w.Message)}
		}
	}
	return obstacle{v1alpha1.ReasonPulling, v1alpha1.ReasonStartFailed, fmt.Sprintf("the node %s prepares the Pod %s", pod.Spec.NodeName, pod.Name)}
}
