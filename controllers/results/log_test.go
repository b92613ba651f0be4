package results

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWordsOfTheNodeAreNoLog(t *testing.T) {
	const uid, id = "5e8014bb-ba8f-4d19-b201-7391c0c2b899", "containerd://f551a2cc9a26"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}, Status: corev1.PodStatus{
		InitContainerStatuses: []corev1.ContainerStatus{{Name: "sidecar", ContainerID: "containerd://77"}},
		ContainerStatuses:     []corev1.ContainerStatus{{Name: "main", ContainerID: id}, {Name: "new"}},
	}}
	for text, want := range map[string]bool{
		"":        false,
		"a log\n": false,
		"unable to retrieve container logs for " + id:                                                                            true, // as recorded while containerd was being restarted
		"unable to retrieve container logs for " + id + "\nand the log":                                                          false,
		"unable to retrieve container logs for containerd://77":                                                                  false, // of another container
		"a log\nunable to retrieve container logs for " + id:                                                                     false,
		`failed to try resolving symlinks in path "/var/log/pods/ns_t_` + uid + `/main/0.log": lstat: no such file or directory`: true,
		`failed to open log file "/var/log/pods/ns_t_` + uid + `/main/0.log": too many open files`:                               true,
		`failed to open log file "/var/log/pods/ns_t_another/main/0.log": too many open files`:                                   false,
		strings.Repeat("x", 4<<10): false,
	} {
		if got := InsteadOfLog([]byte(text), pod, "main"); got != want {
			t.Errorf("%.100q: %v", text, got)
		}
	}
	if !InsteadOfLog([]byte("unable to retrieve container logs for containerd://77"), pod, "sidecar") {
		t.Error("the sidecar's is not recognised")
	}
	if InsteadOfLog([]byte("unable to retrieve container logs for "), pod, "new") {
		t.Error("a container without an id")
	}
}
