package runtimeport

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// FuzzPort: whatever a Pod sends, with its token or another, the port answers in words and without an error of its own, and
// no other task changes.
func FuzzPort(f *testing.F) {
	c := newCluster()
	key, other := c.newTask("team", "pod"), c.newTask("team", "other-pod")
	p := newPort(c, &bytes.Buffer{})
	untouched := c.stored(other).ResourceVersion
	report, result := reportPath(key), strings.TrimSuffix(reportPath(key), "/report")+"/results/"+strings.Repeat("0f", 32)
	for _, seed := range [][4]string{
		{"PUT", report, "token-pod", `{"sequence":1}`},
		{"PUT", report, "token-pod", `{"sequence":2,"progress":{"current":"1","total":"2"},"inputRequests":[{"key":"a-1","params":{"message":"m"}}]}`},
		{"PUT", report, "token-pod", `{"sequence":3,"outcome":"result","result":{"content":[]}}`},
		{"PUT", report, "token-other-pod", `{"sequence":9223372036854775807}`},
		{"GET", answersPath(key) + "?sequence=1&wait=0", "token-pod", ""},
		{"GET", answersPath(key) + "?count=-1&wait=1h", "token-pod", ""},
		{"PUT", result, "token-pod", "result"},
		{"GET", "/v1/namespaces/../tasks/" + other.Name + "/answers", "token-pod", ""},
		{"POST", "/", "", "\x00"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	f.Fuzz(func(t *testing.T, method, path, token, body string) {
		if token == "token-other-pod" && strings.Contains(path, other.Name) {
			return // that Pod speaks for its own task
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // those who fetch answers wait for them
		defer cancel()
		request := httptest.NewRequestWithContext(ctx, http.MethodPut, "/", strings.NewReader(body))
		request.Method = method
		if request.URL, _ = url.Parse(path); request.URL == nil {
			return
		}
		request.Header.Set("Authorization", "Bearer "+token)
		recorder := httptest.NewRecorder()
		p.ServeHTTP(recorder, request)
		if recorder.Code >= 500 || strings.Contains(recorder.Body.String(), "internal error") {
			t.Fatalf("%s %s: HTTP %d with %s", method, path, recorder.Code, recorder.Body)
		}
		if c.stored(other).ResourceVersion != untouched {
			t.Fatalf("%s %s changed another task", method, path)
		}
	})
}
