package bridge

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func client(t *testing.T, url string) (*Client, string) {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("first\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := New(url, "ns", "task", token)
	if err != nil {
		t.Fatal(err)
	}
	return c, token
}

func TestTokenIsReadEachTime(t *testing.T) {
	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization"))
		_, _ = w.Write([]byte(`{"sequence":3}`))
	}))
	defer server.Close()
	c, token := client(t, server.URL+"/")
	for _, next := range []string{"second", ""} {
		if n, err := c.Put(t.Context(), []byte(`{}`)); err != nil || n != 3 {
			t.Fatalf("%d %v", n, err)
		}
		if err := os.WriteFile(token, []byte(next), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := "PUT /v1/namespaces/ns/tasks/task/report Bearer first,PUT /v1/namespaces/ns/tasks/task/report Bearer second"
	if got := strings.Join(seen, ","); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestTokenGoesNowhereElse(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	c, _ := client(t, server.URL)
	if _, err := c.Put(t.Context(), []byte(`{}`)); Status(err) != http.StatusTemporaryRedirect {
		t.Error(err)
	}
}

func TestAnswersThatAreWrong(t *testing.T) {
	for name, serve := range map[string]http.HandlerFunc{
		"cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("{"))
		},
		"no JSON":   func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) },
		"too large": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, maxAnswers+1)) },
		"no words":  func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) },
	} {
		server := httptest.NewServer(serve)
		c, _ := client(t, server.URL)
		if answers, err := c.Answers(t.Context(), 0); err == nil || name == "no words" && err.Error() != "the bridge answered 502 Bad Gateway" {
			t.Errorf("%s: %v %v", name, answers, err)
		}
		server.Close()
	}
}

func TestRuntimeURL(t *testing.T) {
	for _, bad := range []string{"", "mcptask-bridge:8082", "ftp://x", "/x"} {
		if _, err := New(bad, "ns", "task", "token"); err == nil || !strings.Contains(err.Error(), "MCPTASK_RUNTIME_URL") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
