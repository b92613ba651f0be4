package decide

import (
	"fmt"
	"time"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// DefaultStartDeadline is how long the cluster may take to start the work where the tool does not say.
const DefaultStartDeadline = 5 * time.Minute

// startOverdue ends what cannot start. Time in a queue does not count: a suspended Job is not late. Nor is one late that
// has run before and has no Pod, or whose Pod has ended: the Job's own policy says when the next attempt is made. What has asked a question runs.
func startOverdue(in *Input) *Verdict {
	if suspended(in) != nil {
		return nil
	}
	if n := len(in.Pods); n > 0 && (podEnded(&in.Pods[n-1]) || StartedAt(in.Job, in.Pods[n-1:]) != nil) || n == 0 && in.Task.Status.StartedAt != nil {
		return nil
	}
	if in.hasAsked(in.Newest()) || in.Unread || !Overdue(in) {
		return nil
	}
	obstacle := startObstacle(in)
	v := failed(obstacle.reason, fmt.Sprintf("the work could not start within %s: %s", span(startDeadline(in)), obstacle.words))
	v.Stop = true
	return v
}

// starting decides on work that is on its way to a running container.
func starting(in *Input) *Verdict {
	obstacle := startObstacle(in)
	v := working(obstacle.phase, obstacle.words)
	v.Recheck = lookIn(in)
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
