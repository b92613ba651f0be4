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
	v := failed(obstacle.reason, fmt.Sprintf("the work could not start%s within %s (startDeadline): %s", again, span(startDeadline(in)), obstacle.words))
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

// startBase is when the cluster could begin to start the work: a Job's startTime is set anew when it is resumed, an attempt begins with its
// Pod. Where there is none it counts since that was seen: when the last one went, and when a Job was let go on, nothing else says for sure,
// and what nobody watched is not held against it.
func startBase(in *Input) time.Time {
	base := in.Job.CreationTimestamp.Time
	later := func(t time.Time) {
		if t.After(base) {
			base = t
		}
	}
	if in.Job.Status.StartTime != nil {
		later(in.Job.Status.StartTime.Time)
	}
	if pod := in.Newest(); pod != nil && !podEnded(pod) {
		later(pod.CreationTimestamp.Time)
	} else {
		later(in.Waiting.Add(backoff(in)))
	}
	return base
}
