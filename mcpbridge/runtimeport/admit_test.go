package runtimeport

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/auth"
)

func TestWhatATokenGets(t *testing.T) {
	c := newCluster()
	key := c.newTask("team", "pod", "other-pod")
	foreign := c.newTask("team", "foreign-pod")
	ended := c.newTask("team", "ended-pod")
	c.change(ended, func(task *v1alpha1.McpTask) { task.Status.State = v1alpha1.TaskCompleted })
	here := Audience(c.stored(key))
	user := "system:serviceaccount:team:default"
	missing := types.NamespacedName{Namespace: "team", Name: v1alpha1.NewTaskID()}
	for token, review := range map[string]token{
		"new-pod":          {audience: here, user: user, pod: "new-pod"},
		"no-pod":           {audience: here, user: user},
		"other-namespace":  {audience: here, user: "system:serviceaccount:teams:default", pod: "pod"},
		"person":           {audience: here, user: "alice", pod: "pod"},
		"pod-for-cluster":  {audience: "https://kubernetes.default.svc", user: user, pod: "pod"},
		"pod-for-mcp":      {audience: "https://mcp.example.com/mcp/team", user: user, pod: "pod"},
		"unknown-of-ended": {audience: Audience(c.stored(ended)), user: user, pod: "never-seen"},
		"unavailable":      {err: fmt.Errorf("%w: connection refused", auth.ErrUnavailable)},
	} {
		c.tokens[token] = review
	}
	for name, tc := range map[string]struct {
		key    types.NamespacedName
		token  string
		status int
		reason string
		audit  string
	}{
		"a Pod of the task":       {key, "token-pod", 200, "", ""},
		"another Pod of the task": {key, "token-other-pod", 200, "", ""},
		"no token":                {key, "", 401, "credentials", "no token"},
		"a token that nobody made, or that expired":   {key, "token-expired", 404, "credentials", "the token is not accepted"},
		"a token for another task":                    {key, "token-foreign-pod", 404, "credentials", "the token is not accepted"},
		"a token for this task, at another":           {foreign, "token-pod", 404, "credentials", "the token is not accepted"},
		"the Pod's token for the API server":          {key, "pod-for-cluster", 404, "credentials", "the token is not accepted"},
		"the Pod's token for the MCP endpoint":        {key, "pod-for-mcp", 404, "credentials", "the token is not accepted"},
		"a token that is bound to no Pod":             {key, "no-pod", 403, "credentials", "the token is bound to no Pod"},
		"a service account of another namespace":      {key, "other-namespace", 403, "credentials", "the service account is not of the task's namespace"},
		"a person":                                    {key, "person", 403, "credentials", "the service account is not of the task's namespace"},
		"a Pod that the task does not know yet":       {key, "new-pod", 409, "not_yet", ""},
		"a Pod of a task that has ended":              {ended, "token-ended-pod", 410, "ended", ""},
		"an unknown Pod of a task that has ended":     {ended, "unknown-of-ended", 410, "ended", ""},
		"a stranger at a task that has ended":         {ended, "token-pod", 404, "credentials", "the token is not accepted"},
		"a task that is not there":                    {missing, "token-pod", 404, "unknown_task", "no such task"},
		"a name that no task can have":                {types.NamespacedName{Namespace: "team", Name: "x"}, "token-pod", 404, "unknown_task", "no such task"},
		"the task's name in another namespace":        {types.NamespacedName{Namespace: "teams", Name: key.Name}, "token-pod", 404, "unknown_task", "no such task"},
		"an API server that does not answer a review": {key, "unavailable", 503, "internal", ""},
	} {
		for method, path := range map[string]string{"report": reportPath(tc.key), "answers": answersPath(tc.key)} {
			t.Run(name+"/"+method, func(t *testing.T) {
				var log bytes.Buffer
				p := newPort(c, &log)
				verb, body := http.MethodGet, ""
				if method == "report" {
					verb, body = http.MethodPut, `{"sequence":1,"outcome":"cancelled"}` // which is written at once
				}
				g := call(t, p, verb, path, tc.token, body)
				if g.status != tc.status || (g.words != "") != (tc.status != 200) {
					t.Fatalf("HTTP %d with %s", g.status, g.body)
				}
				if tc.token != "" && (strings.Contains(g.body, tc.token) || strings.Contains(log.String(), tc.token)) {
					t.Errorf("the token is repeated: %s %s", g.body, log.String())
				}
				if audited := strings.Contains(log.String(), `"audit":true`); audited != (tc.audit != "") || !strings.Contains(log.String(), tc.audit) {
					t.Errorf("the log is %s", log.String())
				}
				if tc.reason != "" && counted(t, p, "refusals_total", method, tc.reason) != 1 {
					t.Errorf("no refusal is counted for %s", tc.reason)
				}
				if (tc.status == 401) != (g.header.Get("WWW-Authenticate") != "") {
					t.Errorf("the header is %v", g.header)
				}
			})
		}
	}
	if len(c.stored(key).Status.Runtime) != 2 || len(c.stored(foreign).Status.Runtime) != 0 || len(c.stored(ended).Status.Runtime) != 0 {
		t.Error("a report is stored that was refused, or none that was accepted")
	}
}

// Whether a task is there cannot be told by somebody whose token is not good for it.
func TestAStrangerDoesNotLearnWhichTasksThereAre(t *testing.T) {
	c := newCluster()
	key := c.newTask("team", "pod")
	c.newTask("team", "foreign-pod")
	p := newPort(c, &bytes.Buffer{})
	try := func(key types.NamespacedName) (body string, reads, reviews int) {
		reads, reviews = c.reads, c.reviews
		g := call(t, p, http.MethodGet, answersPath(key), "token-foreign-pod", "")
		return fmt.Sprint(g.status, " ", g.body), c.reads - reads, c.reviews - reviews
	}
	theirs, reads, reviews := try(key)
	nobodys, asManyReads, asManyReviews := try(types.NamespacedName{Namespace: "team", Name: v1alpha1.NewTaskID()})
	if theirs != nobodys || reads != asManyReads || reviews != asManyReviews || reads != 1 || reviews != 1 {
		t.Errorf("a task that is there: %s after %d reads and %d reviews\none that is not: %s after %d and %d", theirs, reads, reviews, nobodys, asManyReads, asManyReviews)
	}
}

func TestOnlyServedNamespacesAreLookedAt(t *testing.T) {
	c := newCluster()
	key := c.newTask("team", "pod")
	p := newPort(c, &bytes.Buffer{})
	p.Namespaces = []string{"others"}
	if g := call(t, p, http.MethodGet, answersPath(key), "token-pod", ""); g.status != 404 || c.reads != 0 {
		t.Errorf("HTTP %d after %d reads", g.status, c.reads)
	}
	for _, path := range []string{"/", "/v1", "/v1/namespaces/team/tasks", reportPath(key) + "/", "/healthz"} {
		if g := call(t, p, http.MethodGet, path, "token-pod", ""); g.status != 404 || g.words == "" {
			t.Errorf("%s: HTTP %d with %s", path, g.status, g.body)
		}
	}
	if g := call(t, p, http.MethodPost, reportPath(key), "token-pod", `{"sequence":1}`); g.status != 404 {
		t.Errorf("POST: HTTP %d", g.status)
	}
}

func TestEachPodHasItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		key := c.newTask("team", "pod", "other-pod")
		p := newPort(c, &bytes.Buffer{})
		limited := 0
		for range 100 {
			if g := call(t, p, http.MethodGet, answersPath(key), "token-pod", ""); g.status == 429 {
				limited++
				if g.header.Get("Retry-After") == "" || g.words == "" {
					t.Fatalf("got %v, %s", g.header, g.body)
				}
			}
		}
		if limited != 100-podBurst {
			t.Errorf("%d of 100 requests at once were refused", limited)
		}
		if g := call(t, p, http.MethodGet, answersPath(key), "token-other-pod", ""); g.status != 200 {
			t.Errorf("another Pod, too: HTTP %d", g.status)
		}
		time.Sleep(time.Second)
		if g := call(t, p, http.MethodGet, answersPath(key), "token-pod", ""); g.status != 200 {
			t.Errorf("a second later: HTTP %d", g.status)
		}
	})
}

func TestGuessingIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		key := c.newTask("team", "pod")
		p := newPort(c, &bytes.Buffer{})
		tried := map[int]int{}
		for i := range 100 {
			tried[call(t, p, http.MethodGet, answersPath(key), fmt.Sprint("guess-", i), "").status]++
		}
		if tried[404] != refusalBurst || tried[429] != 100-refusalBurst {
			t.Errorf("100 guesses at once got %v", tried)
		}
		time.Sleep(time.Second)
		if g := call(t, p, http.MethodGet, answersPath(key), "token-pod", ""); g.status != 200 {
			t.Errorf("a second later: HTTP %d", g.status)
		}
	})
}

func TestAnErrorOfOursIsInTheLog(t *testing.T) {
	c := newCluster()
	key := c.newTask("team", "pod")
	c.fail = func([]v1alpha1.RuntimeReport) error { return errors.New("etcd is on fire") }
	var log bytes.Buffer
	g := call(t, newPort(c, &log), http.MethodPut, reportPath(key), "token-pod", `{"sequence":1}`)
	id := g.words[strings.LastIndex(g.words, " ")+1:]
	if g.status != 503 || strings.Contains(g.body, "fire") || !strings.Contains(log.String(), "fire") || !strings.Contains(log.String(), id) {
		t.Errorf("HTTP %d with %s; the log has %s", g.status, g.body, log.String())
	}
}
