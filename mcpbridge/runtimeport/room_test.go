package runtimeport

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// What one Pod sends slowly takes a part of the memory that is set aside for large reports, and no more.
func TestSlowLargeReportsOfOnePodLeaveRoomForOthers(t *testing.T) {
	c := newCluster()
	p, _, _ := newResultPort(c, 1<<20)
	put := func(key types.NamespacedName, pod string, body io.Reader) int {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPut, fmt.Sprintf("/v1/namespaces/%s/tasks/%s/report", key.Namespace, key.Name), body)
		request.Header.Set("Authorization", "Bearer token-"+pod)
		recorder := httptest.NewRecorder()
		p.ServeHTTP(recorder, request)
		return recorder.Code
	}
	slow, other := c.newTask("team", "pod-slow"), c.newTask("team", "pod-other")
	const sent = 5
	var ends []*io.PipeWriter
	for range sent {
		out, in := io.Pipe() // of unknown length: as large as may be
		ends = append(ends, in)
		go put(slow, "pod-slow", out)
	}
	for deadline := time.Now().Add(10 * time.Second); p.rooms.Users("pod-slow") < sent; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d reports arrive", p.rooms.Users("pod-slow"), sent)
		}
	}
	report := strings.Repeat(" ", 2*smallReport) + `{"sequence":1,"protocol":1}`
	if status := put(other, "pod-other", strings.NewReader(report)); status == http.StatusServiceUnavailable {
		t.Errorf("another Pod's report: HTTP %d", status)
	}
	for _, in := range ends {
		_ = in.Close()
	}
	for deadline := time.Now().Add(10 * time.Second); p.rooms.Users("pod-slow") > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the room is not given back")
		}
	}
}
