package decide

import (
	"fmt"
	"time"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// DefaultStartDeadline is how long the cluster may take to start the work where the tool does not say.
const DefaultStartDeadline = 5 * time.Minute

// startOverdue ends what cannot start, at first or again: a further attempt, or the work that an answer has brought back. Time in a queue
// does not count: a suspended Job is not late. What has asked a question runs.
func startOverdue(in *Input) *Verdict {
	if suspended(in) != nil || !toStart(in) || in.Unread || !Overdue(in) {
		return nil
	}
	if pod := in.Newest(); pod != nil && !podEnded(pod) && in.hasAsked(pod) {
		return nil
	}
	again := ""
	if in.Task.Status.StartedAt != nil {
		again = " again"
	}
	obstacle := startObstacle(in)
	v := failed(obstacle.reason, fmt.Sprintf("the work could not start%s within %s: %s", again, span(startDeadline(in)), obstacle.words))
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

// startBase is when the cluster could begin to start the work: a Job's startTime is set anew when it is resumed, and a further attempt
// begins with its Pod, or when it is due.
func startBase(in *Input) time.Time {
	base := in.Job.CreationTimestamp.Time
	if in.Job.Status.StartTime != nil {
		base = in.Job.Status.StartTime.Time
	}
	later := base
	switch pod := in.Newest(); {
	case pod == nil && in.Task.Status.StartedAt != nil:
		// Since when its Pod is gone nothing says but the task, which was written then.
		if written := in.Task.Status.LastUpdatedAt; written != nil {
			later = written.Add(backoff(in.Job))
		}
	case pod != nil && podEnded(pod):
		later = endOf(pod).Add(backoff(in.Job))
	case len(in.Pods) > 1 || pod != nil && in.Task.Status.StartedAt != nil:
		later = pod.CreationTimestamp.Time
	}
	if later.After(base) {
		return later
	}
	return base
}
