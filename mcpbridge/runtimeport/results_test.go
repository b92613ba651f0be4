package runtimeport

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/resultsecret"
	"github.com/mcptask/mcptask/api/v1alpha1"
)

// shelf is where Secrets are stored.
type shelf struct {
	mu    sync.Mutex
	parts map[string]*corev1.Secret
	err   error
	// hold keeps those who store until it is closed; holding tells of each.
	hold, holding chan struct{}
}

func (*shelf) Secret(context.Context, types.NamespacedName) (*corev1.Secret, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "")
}

func (s *shelf) StoreSecret(_ context.Context, part *corev1.Secret) error {
	if s.hold != nil {
		s.holding <- struct{}{}
		<-s.hold
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	if there, ok := s.parts[part.Name]; ok {
		return resultsecret.Same(there, part)
	}
	s.parts[part.Name] = part.DeepCopy()
	return nil
}

// newResultPort is a port that stores results, for tasks whose tools keep limit bytes.
func newResultPort(c *cluster, limit int64) (*Port, *shelf, *bytes.Buffer) {
	log, secrets := &bytes.Buffer{}, &shelf{parts: map[string]*corev1.Secret{}}
	p := newPort(c, log)
	p.Secrets, p.MaxResultBytes = secrets, func(*v1alpha1.McpTask) int64 { return limit }
	return p, secrets, log
}

func resultPath(key types.NamespacedName, hash string) string {
	return "/v1/namespaces/" + key.Namespace + "/tasks/" + key.Name + "/results/" + hash
}

func TestALargeResultIsStoredAndThenReported(t *testing.T) {
	c := newCluster()
	p, secrets, _ := newResultPort(c, 8<<20)
	key := c.newTask("team", "pod-1")
	raw := `{"content":[{"type":"text","text":"` + strings.Repeat("x", 1_200_000) + `"}]}`
	hash := resultsecret.Hash([]byte(raw))
	for range 2 {
		if g := call(t, p, http.MethodPut, resultPath(key, hash), "token-pod-1", raw); g.status != http.StatusOK {
			t.Fatalf("HTTP %d with %s", g.status, g.body)
		}
	}
	if len(secrets.parts) != 3 {
		t.Errorf("%d Secrets are stored", len(secrets.parts))
	}
	report := fmt.Sprintf(`{"sequence":1,"outcome":"result","resultRef":{"sha256":%q,"bytes":%d},"resultSize":9000000}`, hash, len(raw))
	if g := call(t, p, http.MethodPut, reportPath(key), "token-pod-1", report); g.status != http.StatusOK {
		t.Fatalf("HTTP %d with %s", g.status, g.body)
	}
	task := c.stored(key)
	got := task.Status.Runtime[0].Result
	if want := resultsecret.Reference(task, hash, int64(len(raw))); *got.SecretRef != *want || got.SHA256 != hash || got.Size != 9_000_000 || !got.Truncated || got.Inline != nil {
		t.Errorf("reported is %+v, with %+v", got, got.SecretRef)
	}
	task.Status.Result = got
	kept, err := resultsecret.Read(t.Context(), task, func(_ context.Context, at types.NamespacedName) (*corev1.Secret, error) {
		return secrets.parts[at.Name], nil
	})
	if err != nil || string(kept) != raw {
		t.Errorf("%d bytes are stored, %v", len(kept), err)
	}
}

func TestAReportWithALargeResultStoresIt(t *testing.T) {
	c := newCluster()
	p, secrets, _ := newResultPort(c, 1<<20)
	key := c.newTask("team", "pod-1")
	result := `{"content":[{"text":"` + strings.Repeat("y", 100_000) + `","type":"text"}],"isError":true}`
	for sequence := 1; sequence <= 2; sequence++ {
		report := fmt.Sprintf(`{"sequence":%d,"stateName":"s%d","outcome":"result","result":%s}`, sequence, sequence, result)
		if g := call(t, p, http.MethodPut, reportPath(key), "token-pod-1", report); g.status != http.StatusOK {
			t.Fatalf("HTTP %d with %s", g.status, g.body)
		}
	}
	if got := c.stored(key).Status.Runtime[0]; got.Result.Inline != nil || got.Result.SecretRef == nil || !got.Result.IsError || got.StateName != "s2" || len(secrets.parts) != 1 {
		t.Errorf("reported is %+v with %d Secrets", got.Result, len(secrets.parts))
	}
}

func TestResultsThatAreRefused(t *testing.T) {
	c := newCluster()
	p, secrets, log := newResultPort(c, 1000)
	key := c.newTask("team", "pod-1")
	other := c.newTask("team", "pod-2")
	ended := c.newTask("team", "pod-3")
	c.change(ended, func(task *v1alpha1.McpTask) { task.Status.State = v1alpha1.TaskCompleted })
	raw := `{"content":[]}`
	hash := resultsecret.Hash([]byte(raw))
	for name, tc := range map[string]struct {
		path, token, body string
		status            int
		words             string
	}{
		"another's token":   {resultPath(key, hash), "token-pod-2", raw, 404, "there is no such task"},
		"no token":          {resultPath(key, hash), "", raw, 401, "a token is required"},
		"an ended task":     {resultPath(ended, hash), "token-pod-3", raw, 410, "the task has ended"},
		"no hash":           {resultPath(key, "abc"), "token-pod-1", raw, 422, "SHA-256"},
		"another hash":      {resultPath(key, resultsecret.Hash(nil)), "token-pod-1", raw, 422, "not the one that was said"},
		"nothing":           {resultPath(key, hash), "token-pod-1", "", 411, "Content-Length"},
		"more than is kept": {resultPath(key, hash), "token-pod-1", strings.Repeat("x", 1001), 413, "has 1001 bytes, more than the 1000 that the tool keeps"},
	} {
		if g := call(t, p, http.MethodPut, tc.path, tc.token, tc.body); g.status != tc.status || !strings.Contains(g.words, tc.words) {
			t.Errorf("%s: HTTP %d with %s", name, g.status, g.body)
		}
	}
	if len(secrets.parts) > 0 {
		t.Errorf("%d Secrets are stored", len(secrets.parts))
	}
	secrets.err = apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "x", fmt.Errorf("exceeded quota: count"))
	if g := call(t, p, http.MethodPut, resultPath(other, hash), "token-pod-2", raw); g.status != 422 || !strings.Contains(g.words, "quota") || strings.Contains(g.words, "exceeded") {
		t.Errorf("HTTP %d with %s", g.status, g.body)
	}
	secrets.err = &resultsecret.Damaged{Secret: "team/abc-0", Why: "holds something else"}
	if g := call(t, p, http.MethodPut, resultPath(other, hash), "token-pod-2", raw); g.status != 422 || strings.Contains(g.words, "abc-0") || !strings.Contains(log.String(), "team/abc-0 holds something else") {
		t.Errorf("HTTP %d with %s; the log says %s", g.status, g.body, log.String())
	}
}

func TestOnePodCannotStoreResultsWithoutEnd(t *testing.T) {
	c := newCluster()
	p, secrets, _ := newResultPort(c, 1<<20)
	key := c.newTask("team", "pod-1")
	for i := range maxResultsOfPod + 1 {
		raw := fmt.Sprintf(`{"content":[],"structuredContent":{"n":%d}}`, i)
		g := call(t, p, http.MethodPut, resultPath(key, resultsecret.Hash([]byte(raw))), "token-pod-1", raw)
		if want := map[bool]int{true: 200, false: 422}[i < maxResultsOfPod]; g.status != want {
			t.Errorf("result %d: HTTP %d with %s", i, g.status, g.body)
		}
	}
	raw := `{"content":[],"structuredContent":{"n":0}}`
	if g := call(t, p, http.MethodPut, resultPath(key, resultsecret.Hash([]byte(raw))), "token-pod-1", raw); g.status != 200 || len(secrets.parts) != maxResultsOfPod {
		t.Errorf("one that is stored already: HTTP %d with %s", g.status, g.body)
	}
}

func TestUploadsAtOneTimeAreBounded(t *testing.T) {
	c := newCluster()
	p, secrets, _ := newResultPort(c, 1<<20)
	secrets.hold, secrets.holding = make(chan struct{}), make(chan struct{}, 100)
	raw := `{"content":[]}`
	put := func(key types.NamespacedName, pod string) int {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPut, resultPath(key, resultsecret.Hash([]byte(raw))), strings.NewReader(raw))
		request.Header.Set("Authorization", "Bearer token-"+pod)
		recorder := httptest.NewRecorder()
		p.ServeHTTP(recorder, request)
		if recorder.Code >= 400 && (recorder.Header().Get("Retry-After") == "" || !json.Valid(recorder.Body.Bytes())) {
			t.Errorf("HTTP %d says not when to try again: %s", recorder.Code, recorder.Body)
		}
		return recorder.Code
	}
	var waiting sync.WaitGroup
	var first types.NamespacedName
	for i := range maxUploads {
		pod := fmt.Sprint("pod-", i)
		key := c.newTask(fmt.Sprint("team-", i/maxUploadsOfNamespace), types.UID(pod))
		if i == 0 {
			first = key
		}
		waiting.Go(func() {
			if status := put(key, pod); status != http.StatusOK {
				t.Errorf("%s: HTTP %d", pod, status)
			}
		})
		<-secrets.holding
	}
	if status := put(first, "pod-0"); status != http.StatusTooManyRequests {
		t.Errorf("a second upload of one Pod: HTTP %d", status)
	}
	greedy := c.newTask(first.Namespace, "pod-greedy")
	if status := put(greedy, "pod-greedy"); status != http.StatusServiceUnavailable {
		t.Errorf("one upload of a namespace too many: HTTP %d", status)
	}
	late := c.newTask("team-late", "pod-late")
	if status := put(late, "pod-late"); status != http.StatusServiceUnavailable {
		t.Errorf("one upload too many: HTTP %d", status)
	}
	close(secrets.hold)
	waiting.Wait()
	if status := put(late, "pod-late"); status != http.StatusOK {
		t.Errorf("when there is room again: HTTP %d", status)
	}
}
