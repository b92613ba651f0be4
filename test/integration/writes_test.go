//go:build integration

package integration

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// ledger remembers what a part of ours wrote to the API server.
type ledger struct {
	part string

	mu     sync.Mutex
	writes map[string]int
}

// config is cfg with the ledger in it.
func (l *ledger) config() *rest.Config {
	config := rest.CopyConfig(cfg)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if r.Method != http.MethodGet && err == nil && r.URL.Query().Get("dryRun") == "" {
				l.note(r, response.StatusCode)
			}
			return response, err
		})
	})
	return config
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

var namespaced = regexp.MustCompile(`/namespaces/[^/]+/([a-z]+)(?:/[^/]+)?(/[a-z]+)?$`)

// note counts a request under a name like "controller PATCH mcptasks/status".
func (l *ledger) note(r *http.Request, code int) {
	what := r.URL.Path
	if parts := namespaced.FindStringSubmatch(r.URL.Path); parts != nil {
		what = parts[1] + parts[2]
	}
	if what == "tokenreviews" || strings.HasSuffix(what, "/tokenreviews") {
		return // it stores nothing
	}
	entry := l.part + " " + r.Method + " " + what
	if code >= 300 {
		entry += " " + strconv.Itoa(code)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writes == nil {
		l.writes = map[string]int{}
	}
	l.writes[entry]++
}

// since is what was written after an earlier look; none looks from the beginning.
func (l *ledger) since(before map[string]int) map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	news := map[string]int{}
	for entry, n := range l.writes {
		if n > before[entry] {
			news[entry] = n - before[entry]
		}
	}
	return news
}

// all are the writes of several ledgers, one a line.
func all(writes ...map[string]int) string {
	var lines []string
	for _, some := range writes {
		for entry, n := range some {
			lines = append(lines, fmt.Sprintf("%d× %s", n, entry))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

var requestTotal = regexp.MustCompile(`(?m)^apiserver_request_total\{(.*)\} (\S+)$`)

// served is how many writes of tasks the API server has carried out so far, by its own count, under names like
// "PATCH mcptasks/status".
func served(t *testing.T) map[string]int {
	t.Helper()
	clientset, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	text, err := clientset.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, line := range requestTotal.FindAllStringSubmatch(string(text), -1) {
		label := func(name string) string {
			found := regexp.MustCompile(`\b` + name + `="([^"]*)"`).FindStringSubmatch(line[1])
			if found == nil {
				return ""
			}
			return found[1]
		}
		if label("resource") != "mcptasks" || !strings.HasPrefix(label("code"), "2") || label("dry_run") != "" ||
			!slices.Contains([]string{"POST", "PUT", "PATCH", "APPLY"}, label("verb")) {
			continue
		}
		n, err := strconv.ParseFloat(line[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		what := label("verb") + " mcptasks"
		if sub := label("subresource"); sub != "" {
			what += "/" + sub
		}
		counts[what] += int(n)
	}
	return counts
}

// more is by how much counts have grown.
func more(after, before map[string]int) map[string]int {
	grown := maps.Clone(after)
	for what, n := range before {
		if grown[what] -= n; grown[what] == 0 {
			delete(grown, what)
		}
	}
	return grown
}
