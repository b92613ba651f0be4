package runtimeport

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

func poll(t testing.TB, p *Port, key types.NamespacedName, pod, query string) got {
	return call(t, p, http.MethodGet, answersPath(key)+query, "token-"+pod, "")
}

func (c *cluster) answer(key types.NamespacedName, questions ...string) {
	c.change(key, func(task *v1alpha1.McpTask) {
		for _, question := range questions {
			task.Spec.InputResponses = append(task.Spec.InputResponses, v1alpha1.InputResponse{Key: question, Response: raw(`{"action":"accept"}`)})
		}
	})
}

func TestAnswersAreGivenAtOnceWhenThereAreMore(t *testing.T) {
	c := newCluster()
	key := c.newTask("team", "pod")
	p := newPort(c, &bytes.Buffer{})
	if g := poll(t, p, key, "pod", ""); g.status != 200 || g.body != `{"count":0,"answers":[]}` {
		t.Errorf("HTTP %d with %s", g.status, g.body)
	}
	c.answer(key, "a")
	c.answer(key, "b")
	const both = `{"count":2,"answers":[{"key":"a","response":{"action":"accept"}},{"key":"b","response":{"action":"accept"}}]}`
	for _, query := range []string{"?after=0&wait=25", "?after=1&wait=25", "?after=2", "?after=2&wait=0", "?after=7"} {
		if g := poll(t, p, key, "pod", query); g.status != 200 || g.body != both {
			t.Errorf("%s: HTTP %d with %s", query, g.status, g.body)
		}
	}
	for query, want := range map[string]string{
		"?after=-1": "after: must be", "?after=x": "after: must be", "?wait=61": "wait: must be a whole number from 0 to 60", "?wait=1.5": "wait: must be", "?after=99999999999999999999": "after: must be",
	} {
		if g := poll(t, p, key, "pod", query); g.status != 422 || !strings.HasPrefix(g.words, want) {
			t.Errorf("%s: HTTP %d with %s", query, g.status, g.body)
		}
	}
	if c.reads != 0 {
		t.Errorf("%d reads of the API server", c.reads)
	}
}

func TestAPollWaitsForWhatItAskedFor(t *testing.T) {
	for name, tc := range map[string]struct {
		happens func(*cluster, *Port, types.NamespacedName)
		status  int
		count   int
		after   time.Duration
	}{
		"nothing":               {func(*cluster, *Port, types.NamespacedName) {}, 200, 1, 25 * time.Second},
		"an answer":             {func(c *cluster, _ *Port, key types.NamespacedName) { c.answer(key, "b") }, 200, 2, time.Second},
		"another change":        {func(c *cluster, _ *Port, key types.NamespacedName) { c.change(key, func(*v1alpha1.McpTask) {}) }, 200, 1, 25 * time.Second},
		"the bridge ends":       {func(_ *cluster, p *Port, _ types.NamespacedName) { p.Drain() }, 200, 1, time.Second},
		"the task ends":         {func(c *cluster, _ *Port, key types.NamespacedName) { c.change(key, end) }, 410, 0, time.Second},
		"the task is deleted":   {func(c *cluster, _ *Port, key types.NamespacedName) { c.remove(key) }, 404, 0, time.Second},
		"the answer of another": {func(c *cluster, _ *Port, _ types.NamespacedName) { c.answer(c.newTask("team", "x"), "b") }, 200, 1, 25 * time.Second},
		"two answers at once":   {func(c *cluster, _ *Port, key types.NamespacedName) { c.answer(key, "b", "c") }, 200, 3, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster()
				key := c.newTask("team", "pod")
				c.answer(key, "a")
				p := newPort(c, &bytes.Buffer{})
				start := time.Now()
				var waiting sync.WaitGroup
				waiting.Go(func() {
					g := poll(t, p, key, "pod", "?after=1&wait=25")
					if g.status != tc.status || g.status == 200 && (*g.decoded.Count != tc.count || len(g.decoded.Answers) != tc.count) {
						t.Errorf("HTTP %d with %s", g.status, g.body)
					}
				})
				synctest.Wait()
				if n := counted(t, p, "waiting_polls"); n != 1 {
					t.Errorf("%v polls are said to wait", n)
				}
				time.Sleep(time.Second)
				tc.happens(c, p, key)
				waiting.Wait()
				if took := time.Since(start); took != tc.after {
					t.Errorf("it took %s", took)
				}
				if n := counted(t, p, "waiting_polls"); n != 0 {
					t.Errorf("%v polls are said to wait in the end", n)
				}
			})
		})
	}
}

func end(task *v1alpha1.McpTask) { task.Status.State = v1alpha1.TaskCancelled }

// remove deletes a task.
func (c *cluster) remove(key types.NamespacedName) {
	c.mu.Lock()
	delete(c.tasks, key)
	c.mu.Unlock()
	c.store.Forget(key)
}

func TestOnlySoManyPollsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		key := c.newTask("team", "pod", "other-pod")
		p := newPort(c, &bytes.Buffer{})
		ctx, leave := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		for range maxPollsOfPod {
			waiting.Go(func() { callWith(t, ctx, p, http.MethodGet, answersPath(key)+"?wait=60", "token-pod", "") })
		}
		synctest.Wait()
		if g := poll(t, p, key, "pod", "?wait=60"); g.status != 429 || g.words == "" {
			t.Errorf("HTTP %d with %s", g.status, g.body)
		}
		if g := poll(t, p, key, "other-pod", "?wait=1"); g.status != 200 {
			t.Errorf("another Pod's: HTTP %d with %s", g.status, g.body)
		}
		leave()
		waiting.Wait()
		if g := poll(t, p, key, "pod", "?wait=1"); g.status != 200 {
			t.Errorf("when they have left: HTTP %d with %s", g.status, g.body)
		}
		p.polls.all = maxPolls
		if g := poll(t, p, key, "pod", "?wait=1"); g.status != 429 {
			t.Errorf("when all places are taken: HTTP %d with %s", g.status, g.body)
		}
		if g := poll(t, p, key, "pod", ""); g.status != 200 {
			t.Errorf("without waiting: HTTP %d with %s", g.status, g.body)
		}
	})
}
