package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// epoch is when every recorded Job was made, so that two recordings of one case differ in little.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

var (
	uuid      = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	podSuffix = regexp.MustCompile(`\b` + jobName + `-[a-z0-9]{5}\b`)
	timestamp = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	address   = regexp.MustCompile(`\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b`)
	digest    = regexp.MustCompile(`[0-9a-f]{64}`)
)

// sanitised is the scene without what is of this cluster and run alone: numbers, names and times are told in the order of
// their appearance, or from the making of the Job.
func (s *scene) sanitised(namespace string) (string, error) {
	strip(&s.Job.ObjectMeta)
	s.Job.Spec.Template = corev1.PodTemplateSpec{} // the Pods show it
	for i := range s.Pods {
		pod := &s.Pods[i]
		strip(&pod.ObjectMeta)
		pod.Status.HostIP, pod.Status.HostIPs, pod.Status.PodIP, pod.Status.PodIPs = "", nil, "", nil
		for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
			for j := range statuses {
				c := &statuses[j]
				c.ContainerID, c.ImageID, c.User = "", "", nil
				if c.State.Terminated != nil {
					c.State.Terminated.ContainerID = ""
				}
			}
		}
	}
	for i := range s.Events {
		e := &s.Events[i]
		strip(&e.ObjectMeta)
		e.Name, e.Regarding.ResourceVersion, e.ReportingInstance = fmt.Sprintf("event-%d", i), "", ""
	}
	if s.Node != nil {
		s.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.Node.Name}, Spec: corev1.NodeSpec{Taints: s.Node.Spec.Taints}, Status: corev1.NodeStatus{Conditions: s.Node.Status.Conditions}}
	}
	began := s.Job.CreationTimestamp.Time
	raw, err := yaml.Marshal(s)
	if err != nil {
		return "", err
	}
	text := strings.ReplaceAll(string(raw), namespace, "tools")
	text = timestamp.ReplaceAllStringFunc(text, func(was string) string {
		t, err := time.Parse(time.RFC3339Nano, was)
		if err != nil || t.Unix() <= 0 {
			return was
		}
		layout := time.RFC3339
		if strings.Contains(was, ".") {
			layout = "2006-01-02T15:04:05.000000Z07:00"
		}
		return epoch.Add(t.Sub(began)).Format(layout)
	})
	text = numbered(uuid, text, "00000000-0000-4000-8000-%012d")
	text = numbered(podSuffix, text, jobName+"-%d")
	text = digest.ReplaceAllString(text, strings.Repeat("0", 64))
	return address.ReplaceAllString(text, "192.0.2.1"), nil
}

func strip(meta *metav1.ObjectMeta) { meta.ManagedFields, meta.ResourceVersion = nil, "" }

// numbered replaces what matches by its number, the same by the same.
func numbered(pattern *regexp.Regexp, text, format string) string {
	numbers := map[string]int{}
	return pattern.ReplaceAllStringFunc(text, func(was string) string {
		if _, known := numbers[was]; !known {
			numbers[was] = len(numbers) + 1
		}
		return fmt.Sprintf(format, numbers[was])
	})
}
