package endpoint

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/limits"
	"github.com/mcptask/mcptask/mcpbridge/mcptest"
)

// limited is a fixture whose callers have these limits.
func limited(t testing.TB, change func(*limits.Limits)) *fixture {
	return newFixture(t, func(c *Config) { change(&c.Limits) })
}

// refusedBy checks that a refusal names the limit, its value and when to try again, and returns that.
func refusedBy(t *testing.T, response *mcptest.Response, status int, limit string, value int64) time.Duration {
	t.Helper()
	var data struct {
		Limit             string
		Value             int64
		RetryAfterSeconds int64
	}
	if response.Error == nil || response.Error.Code != 429 || response.Status != status || json.Unmarshal(response.Error.Data, &data) != nil {
		t.Fatalf("got HTTP %d with %s", response.Status, response.Raw)
	}
	if data.Limit != limit || data.Value != value || data.RetryAfterSeconds < 1 {
		t.Errorf("got %+v, want %s %d", data, limit, value)
	}
	if after := response.Header.Get("Retry-After"); after != strconv.FormatInt(data.RetryAfterSeconds, 10) {
		t.Errorf("Retry-After is %q beside %+v", after, data)
	}
	return time.Duration(data.RetryAfterSeconds) * time.Second
}

func (f *fixture) tool(t testing.TB, client mcptest.Client, name string) *mcptest.Response {
	t.Helper()
	return client.Call(t, "tools/call", map[string]any{"name": name})
}

func TestRunningTasksAreBoundedForEachCaller(t *testing.T) {
	f := limited(t, func(l *limits.Limits) { l.RunningTasksPerCaller = 2 })
	f.offer("tool", func(s *v1alpha1.McpToolSpec) { s.PollInterval = &metav1.Duration{Duration: 7 * time.Second} })
	first := f.handle(t, "tool")
	f.handle(t, "tool")
	if after := refusedBy(t, f.tool(t, f.alice, "tool"), http.StatusOK, "runningTasksPerCaller", 2); after != 7*time.Second {
		t.Errorf("to be tried again after %s", after)
	}
	s := f.legacySession(t, nil)
	refusedBy(t, s.Call(t, "tools/call", map[string]any{"name": "tool", "task": map[string]any{}}), http.StatusOK, "runningTasksPerCaller", 2)
	if f.cluster.count() != 2 || f.cluster.writes != 2 {
		t.Errorf("refused calls made something: %d tasks, %d writes", f.cluster.count(), f.cluster.writes)
	}
	bob := f.alice
	bob.Token = "bob"
	if response := f.tool(t, bob, "tool"); response.Error != nil {
		t.Errorf("another caller is refused: %s", response.Raw)
	}
	f.cluster.change(t, first, completed(`{}`))
	f.handle(t, "tool")
	if n := f.metric(t, "refusals_total"); n != 2 {
		t.Errorf("%v refusals were counted", n)
	}
}

func TestAToolBoundsItsTasks(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", func(s *v1alpha1.McpToolSpec) {
		s.Limits = &v1alpha1.ToolLimits{RunningTasks: ptr.To[int64](3), RunningTasksPerCaller: ptr.To[int64](2)}
	})
	f.offer("other", nil)
	f.handle(t, "tool")
	f.handle(t, "tool")
	refusedBy(t, f.tool(t, f.alice, "tool"), http.StatusOK, "tool.runningTasksPerCaller", 2)
	f.handle(t, "other")
	bob := f.alice
	bob.Token = "bob"
	if response := f.tool(t, bob, "tool"); response.Error != nil {
		t.Fatal(response.Raw)
	}
	refusedBy(t, f.tool(t, bob, "tool"), http.StatusOK, "tool.runningTasks", 3)
}

func TestStoredTasksAreBoundedAndNoneIsDeletedForIt(t *testing.T) {
	f := limited(t, func(l *limits.Limits) { l.StoredTasksPerCaller, l.StoredTasksPerNamespace = 2, 3 })
	f.offer("tool", nil)
	ended := completed(`{}`)
	ended.ExpiresAt = &metav1.Time{Time: time.Now().Add(90 * time.Second)}
	f.cluster.change(t, f.handle(t, "tool"), ended)
	ended.ExpiresAt = &metav1.Time{Time: time.Now().Add(300 * time.Second)}
	f.cluster.change(t, f.handle(t, "tool"), ended)
	if after := refusedBy(t, f.tool(t, f.alice, "tool"), http.StatusOK, "storedTasksPerCaller", 2); after < 80*time.Second || after > 90*time.Second {
		t.Errorf("to be tried again after %s", after)
	}
	bob := f.alice
	bob.Token = "bob"
	if response := f.tool(t, bob, "tool"); response.Error != nil {
		t.Fatal(response.Raw)
	}
	refusedBy(t, f.tool(t, bob, "tool"), http.StatusOK, "storedTasksPerNamespace", 3)
	if f.cluster.count() != 3 {
		t.Errorf("there are %d tasks", f.cluster.count())
	}
}

func TestCallsAreBoundedInAMinute(t *testing.T) {
	f := limited(t, func(l *limits.Limits) { l.CallsPerMinute = 2 })
	f.offer("tool", nil)
	f.handle(t, "tool")
	f.handle(t, "tool")
	if after := refusedBy(t, f.tool(t, f.alice, "tool"), http.StatusOK, "callsPerMinute", 2); after < 28*time.Second || after > 30*time.Second {
		t.Errorf("of two a minute the next is let in after %s", after)
	}
}

func TestAFurtherTryOfACallIsNotRefused(t *testing.T) {
	f := limited(t, func(l *limits.Limits) { l.CallsPerMinute, l.RunningTasksPerCaller = 1, 1 })
	f.cluster.strictly()
	f.offer("tool", nil)
	first := handleOf(t, f.alice.Call(t, "tools/call", keyed("k", `{}`)))
	if again := handleOf(t, f.alice.Call(t, "tools/call", keyed("k", `{}`))); again != first {
		t.Errorf("the second try got %s", again)
	}
	refusedBy(t, f.alice.Call(t, "tools/call", keyed("another", `{}`)), http.StatusOK, "callsPerMinute", 1)

	// A replica that does not know the task yet, whose caller has reached its limit there.
	other := limited(t, func(l *limits.Limits) { l.RunningTasksPerCaller = 1 })
	other.cluster.strictly()
	other.offer("tool", nil)
	other.handle(t, "tool")
	other.cluster.deaf = true
	made := f.cluster.only(t)
	other.cluster.put(made)
	if again := handleOf(t, other.alice.Call(t, "tools/call", keyed("k", `{}`))); again != first {
		t.Errorf("another replica gave %s", again)
	}
}

// However many calls come at once, the limit holds at one replica.
func TestCallsAtOnceDoNotExceedALimit(t *testing.T) {
	const room = 5
	f := limited(t, func(l *limits.Limits) { l.RunningTasksPerCaller = room })
	f.cluster.deaf = true // the watch shows nothing of it
	f.offer("tool", nil)
	var calls sync.WaitGroup
	for range 40 {
		calls.Go(func() { f.tool(t, f.alice, "tool") })
	}
	calls.Wait()
	if n := f.cluster.count(); n != room {
		t.Errorf("%d tasks were made, want %d", n, room)
	}
}

// What could not be made takes no place.
func TestAFailedCreationGivesItsPlaceBack(t *testing.T) {
	f := limited(t, func(l *limits.Limits) { l.RunningTasksPerCaller = 1 })
	f.offer("tool", nil)
	f.cluster.onCreate = func(*v1alpha1.McpTask) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "mcptasks"}, "x", errors.New("not today"))
	}
	for range 3 {
		failsWith(t, f.tool(t, f.alice, "tool"), -32603, http.StatusOK, "does not accept a task")
	}
	f.cluster.onCreate = nil
	f.handle(t, "tool")
}

func TestANamespacesQuotaIsALimitToo(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	f.cluster.onCreate = func(*v1alpha1.McpTask) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "mcptasks"}, "x",
			errors.New("exceeded quota: secret, requested: count/mcptasks.mcptask.dev=1, used: count/mcptasks.mcptask.dev=5, limited: count/mcptasks.mcptask.dev=5"))
	}
	refusedBy(t, f.tool(t, f.alice, "tool"), http.StatusOK, "resourceQuota", 5)
}

func TestPollsAreAnsweredAndOnlyAFloodIsRefused(t *testing.T) {
	f := limited(t, func(l *limits.Limits) { l.PollsPerSecond = 5 })
	f.offer("tool", nil)
	id := f.handle(t, "tool")
	poll := func() *mcptest.Response { return f.alice.Call(t, "tasks/get", map[string]any{"taskId": id}) }
	if response := poll(); response.Error != nil || f.metric(t, "early_polls_total") != 0 {
		t.Fatalf("%v early: %s", f.metric(t, "early_polls_total"), response.Raw)
	}
	answered, refused := 0, 0
	for range 80 {
		if response := poll(); response.Error == nil {
			answered++
		} else {
			refusedBy(t, response, http.StatusTooManyRequests, "pollsPerSecond", 5)
			refused++
		}
	}
	if answered < 49 || refused == 0 {
		t.Errorf("%d were answered, %d refused", answered, refused)
	}
	if early := f.metric(t, "early_polls_total"); int(early) != answered {
		t.Errorf("of %d early polls %v were counted", answered, early)
	}
	if f.cluster.reads != 0 {
		t.Errorf("polls cost %d reads", f.cluster.reads)
	}
	bob := f.alice
	bob.Token = "bob"
	failsWith(t, bob.Call(t, "tasks/get", map[string]any{"taskId": id}), -32602, 400, "Unknown task")
}

func TestWhenToTryAgainHasBounds(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for at, want := range map[time.Time]time.Duration{
		{}:                         retryUnknown,
		now.Add(-time.Minute):      time.Second,
		now.Add(10 * time.Minute):  10 * time.Minute,
		now.Add(100 * time.Minute): longestRetry,
	} {
		if got := untilExpiry(at, now); got != want {
			t.Errorf("%s: %s, want %s", at, got, want)
		}
	}
}

// 10,000 tasks of one caller are listed page by page, each once.
func TestManyTasksAreListedInPages(t *testing.T) {
	const many = 10_000
	f := newFixture(t, nil)
	owner := v1alpha1.Identity{Issuer: "test", Subject: "alice"}
	for i := range many {
		task := &v1alpha1.McpTask{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: v1alpha1.NewTaskID(), ResourceVersion: strconv.Itoa(i + 1),
			CreationTimestamp: metav1.Unix(int64(1_800_000_000+i/7), 0)}}
		task.Spec.ToolName, task.Spec.Owner, task.Status = "tool", &owner, completed(`{"content":[]}`)
		f.Store.Observe(task)
	}
	s := f.legacySession(t, nil)
	seen := map[string]bool{}
	pages, params := 0, map[string]any{}
	for {
		response := s.Call(t, "tasks/list", params)
		var page struct {
			Tasks      []struct{ TaskID string }
			NextCursor string
		}
		if response.Error != nil || json.Unmarshal(response.Result, &page) != nil || len(page.Tasks) > taskPage {
			t.Fatalf("page %d: %.300s", pages, response.Raw)
		}
		for _, task := range page.Tasks {
			if seen[task.TaskID] {
				t.Fatalf("%s is listed twice", task.TaskID)
			}
			seen[task.TaskID] = true
		}
		if pages++; page.NextCursor == "" {
			break
		}
		params = map[string]any{"cursor": page.NextCursor}
	}
	if len(seen) != many || pages != many/taskPage {
		t.Errorf("%d tasks on %d pages", len(seen), pages)
	}
}
