package controllers

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers/decide"
	"github.com/mcptask/mcptask/controllers/jobs"
)

// maxPodUIDs is how many Pods of a task are remembered, the newest ones.
const maxPodUIDs = 64

// describe writes down what the Job and its Pods show and report, whatever it means.
func describe(status *v1alpha1.McpTaskStatus, seen *decide.Input) {
	if seen.Job == nil || !metav1.IsControlledBy(seen.Job, seen.Task) {
		return
	}
	status.JobRef = &v1alpha1.JobReference{Name: seen.Job.Name, UID: seen.Job.UID}
	if pod := seen.Newest(); pod != nil && !slices.Contains(status.PodUIDs, pod.UID) {
		// A new attempt begins at its beginning.
		status.Progress, status.StateName = nil, ""
	}
	status.PodUIDs = podUIDs(status.PodUIDs, seen.Pods)
	if started := decide.StartedAt(seen.Job, seen.Pods); started != nil && status.StartedAt == nil {
		status.StartedAt = started
	}
	pod := seen.Deciding()
	if pod == nil {
		pod = seen.Newest()
	}
	report := seen.Report(pod)
	if report != nil {
		status.StateName = report.StateName
	}
	if n := seen.Job.Spec.Completions; n != nil && *n > 1 {
		status.Progress = &v1alpha1.Progress{Current: strconv.Itoa(int(seen.Job.Status.Succeeded)), Total: strconv.Itoa(int(*n))}
	} else if report != nil {
		status.Progress = grown(status.Progress, report.Progress)
	}
}

// grown is the progress that was told; its amount never falls below what was told before.
func grown(before, told *v1alpha1.Progress) *v1alpha1.Progress {
	if told == nil {
		return before
	}
	now := *told
	if before != nil && less(now.Current, before.Current) {
		now.Current = before.Current
	}
	return &now
}

// less compares two amounts; what is no number is not less.
func less(a, b string) bool {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	return errX == nil && errY == nil && x < y
}

// podUIDs are the Pods known before and those seen now; of too many the newest of those seen now.
func podUIDs(known []types.UID, pods []corev1.Pod) []types.UID {
	all := slices.Clone(known)
	seen := make([]types.UID, 0, len(pods))
	for _, pod := range pods {
		seen = append(seen, pod.UID)
		if !slices.Contains(all, pod.UID) {
			all = append(all, pod.UID)
		}
	}
	if len(all) > maxPodUIDs {
		return seen[max(0, len(seen)-maxPodUIDs):]
	}
	return all
}

// newSidecar says whether a Pod that may report is not known yet.
func newSidecar(known []types.UID, pods []corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return jobs.HasSidecar(&pod) && !slices.Contains(known, pod.UID) })
}
