package endpoint

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/mcptest"
)

func TestALegacyTaskIsShownInItsOwnWords(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	s := f.legacySession(t, forms)
	for name, tc := range map[string]struct {
		status v1alpha1.McpTaskStatus
		want   string
		words  string
	}{
		"accepted":         {v1alpha1.McpTaskStatus{}, "working", "waiting for the controller"},
		"asking":           {asks(question("a-1")), "input_required", ""},
		"asking otherwise": {asks(urlQuestion("a-1")), "input_required", "does not declare the elicitation mode"},
		"completed":        {completed(`{"content":[]}`), "completed", ""},
		"an error of the tool": {completed(`{"content":[{"type":"text","text":"exit code 3"}],"isError":true}`),
			"failed", "exit code 3"},
		"an error without words": {completed(`{"content":[],"isError":true}`), "failed", "ended with an error"},
		"failed": {v1alpha1.McpTaskStatus{State: v1alpha1.TaskFailed, Error: &v1alpha1.TaskError{Code: -32603, Message: "node lost"}},
			"failed", "node lost"},
		"cancelled": {v1alpha1.McpTaskStatus{State: v1alpha1.TaskCancelled, Message: "by itself"}, "cancelled", "by itself"},
	} {
		id := asTask(t, s, "tool")
		f.cluster.change(t, id, tc.status)
		if task := legacyGet(t, s, id); task.TaskID != id || task.Status != tc.want || !strings.Contains(task.StatusMessage, tc.words) {
			t.Errorf("%s: %+v", name, task)
		}
	}
}

func TestATaskIsReadUnderEitherRevision(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	s := f.legacySession(t, nil)
	if old := legacyGet(t, s, f.handle(t, "tool")); old.Status != "working" {
		t.Errorf("made under the newer revision: %+v", old)
	}
	id := asTask(t, s, "tool")
	f.cluster.change(t, id, completed(`{"content":[],"isError":true}`))
	response := f.alice.Call(t, "tasks/get", map[string]any{"taskId": id})
	if response.Error != nil || !strings.Contains(response.Raw, `"status":"completed"`) || !strings.Contains(response.Raw, `"ttlMs"`) {
		t.Errorf("made under the older revision: %s", response.Raw)
	}
}

func TestALegacyStrangerLearnsNothing(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	s := f.legacySession(t, nil)
	known := asTask(t, s, "tool")
	bob := f.alice
	bob.Token = "bob"
	stranger := bob.Initialize(t, mcptest.LegacyVersion, forms)
	for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel"} {
		response := stranger.Call(t, method, map[string]any{"taskId": known})
		failsWith(t, response, -32602, 200, "Unknown task")
		if nobody := s.Call(t, method, map[string]any{"taskId": v1alpha1.NewTaskID()}); nobody.Raw != response.Raw {
			t.Errorf("%s tells a stranger %s", method, response.Raw)
		}
		if !strings.Contains(f.log.String(), `"issuer":"test","subject":"bob","method":"`+method+`","namespace":"team","task":"`+known+`"`) {
			t.Errorf("the log does not say who tried %s", method)
		}
	}
	f.cluster.change(t, known, asks(question("a-1")))
	answer := json.RawMessage(`"mcptask/` + known + `/a-1"`)
	failsWith(t, stranger.Respond(t, answer, accept(`{"amount":3}`), nil), -32602, 400, "Unknown task")
	if task := f.cluster.only(t); task.Spec.Cancel != nil || len(task.Spec.InputResponses) > 0 {
		t.Errorf("a stranger changed %+v", task.Spec)
	}
	response := stranger.Call(t, "tasks/list", nil)
	if string(response.Result) != `{"tasks":[]}` {
		t.Errorf("a stranger's list is %s", response.Raw)
	}
}

func TestALegacyCancelHoldsAtOnceAndForEver(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	s := f.legacySession(t, nil)
	id := asTask(t, s, "tool")
	response := s.Call(t, "tasks/cancel", map[string]any{"taskId": id})
	fits(t, "CancelTaskResult", response.Result)
	told := taskOf(t, response.Result)
	if response.Error != nil || told.Status != "cancelled" || told.TaskID != id || f.cluster.only(t).Spec.Cancel == nil {
		t.Fatalf("got %s", response.Raw)
	}
	failsWith(t, s.Call(t, "tasks/cancel", map[string]any{"taskId": id}), -32602, 200, "Cannot cancel task: already in terminal status 'cancelled'")
	for _, later := range []v1alpha1.McpTaskStatus{
		{State: v1alpha1.TaskWorking}, asks(question("a-1")), completed(`{"content":[]}`),
	} {
		f.cluster.change(t, id, later)
		if now := legacyGet(t, s, id); now != told {
			t.Errorf("told was %+v, once %s it is %+v", told, later.State, now)
		}
		failsWith(t, s.Call(t, "tasks/result", map[string]any{"taskId": id}), -32603, 200, "was cancelled: it has no result")
	}
	if modern := f.alice.Call(t, "tasks/get", map[string]any{"taskId": id}); !strings.Contains(modern.Raw, `"status":"completed"`) {
		t.Errorf("the object is no longer cooperative: %s", modern.Raw)
	}
}

func TestALegacyCancelComesTooLate(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	s := f.legacySession(t, nil)
	for state, status := range map[string]v1alpha1.McpTaskStatus{
		"completed": completed(`{}`), "failed": completed(`{"isError":true}`), "cancelled": {State: v1alpha1.TaskCancelled},
	} {
		id := asTask(t, s, "tool")
		f.cluster.change(t, id, status)
		failsWith(t, s.Call(t, "tasks/cancel", map[string]any{"taskId": id}), -32602, 200, "Cannot cancel task: already in terminal status '"+state+"'")
	}
	// The watch has not shown yet that the task has ended: what finished first stands.
	id := asTask(t, s, "tool")
	f.cluster.deaf = true
	f.cluster.change(t, id, completed(`{}`))
	failsWith(t, s.Call(t, "tasks/cancel", map[string]any{"taskId": id}), -32602, 200, "already in terminal status 'completed'")
	if now := legacyGet(t, s, id); now.Status != "completed" {
		t.Errorf("it is %+v", now)
	}
}

// mine puts a task of alice's into the cluster.
func (c *cluster) mine(made time.Time, owner string) string {
	task := &v1alpha1.McpTask{Spec: v1alpha1.McpTaskSpec{ToolName: "tool", Owner: &v1alpha1.Identity{Issuer: "test", Subject: owner}}}
	task.Namespace, task.Name, task.CreationTimestamp = "team", v1alpha1.NewTaskID(), metav1.NewTime(made)
	task.UID = types.UID(task.Name)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(task)
	return task.Name
}

// listed are the ids of a page of tasks/list, and the cursor of the next one.
func listed(t *testing.T, s *mcptest.Session, cursor string) (ids []string, next string) {
	t.Helper()
	params := map[string]any{}
	if cursor != "" {
		params["cursor"] = cursor
	}
	response := s.Call(t, "tasks/list", params)
	if response.Error != nil {
		t.Fatal(response.Raw)
	}
	fits(t, "ListTasksResult", response.Result)
	var page struct {
		Tasks      []legacyTask
		NextCursor string
	}
	if err := json.Unmarshal(response.Result, &page); err != nil {
		t.Fatal(err)
	}
	for _, task := range page.Tasks {
		ids = append(ids, task.TaskID)
	}
	return ids, page.NextCursor
}

func TestTasksAreListedPageByPage(t *testing.T) {
	f := newFixture(t, nil)
	s := f.legacySession(t, nil)
	now := time.Now().Truncate(time.Second)
	var want []string
	for i := range 2*taskPage + 20 {
		want = append(want, f.cluster.mine(now.Add(-time.Duration(i/30)*time.Second), "alice"))
		f.cluster.mine(now, "bob")
	}
	before := f.cluster.reads
	var got []string
	pages := []int{}
	for cursor := ""; ; {
		ids, next := listed(t, s, cursor)
		got, pages = append(got, ids...), append(pages, len(ids))
		if next == "" {
			break
		}
		f.cluster.mine(now.Add(time.Hour), "alice") // what is made meanwhile moves nothing
		cursor = next
	}
	if !slices.Equal(pages, []int{taskPage, taskPage, 20}) {
		t.Errorf("pages of %v tasks", pages)
	}
	seconds := map[string]int{}
	for i, id := range want {
		seconds[id] = i / 30
	}
	last := 0
	for _, id := range got {
		second, known := seconds[id]
		if !known || second < last {
			t.Errorf("%s comes after one that is %d seconds old: %v", id, last, known)
		}
		last = second
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d tasks were listed, or not each once; there are %d", len(got), len(want))
	}
	if f.cluster.reads != before {
		t.Errorf("listing cost %d requests", f.cluster.reads-before)
	}
}

func TestCursorsAreTheCallersOwn(t *testing.T) {
	f := newFixture(t, nil)
	s := f.legacySession(t, nil)
	for range taskPage + 1 {
		f.cluster.mine(time.Now(), "alice")
	}
	_, cursor := listed(t, s, "")
	bob := f.alice
	bob.Token = "bob"
	failsWith(t, bob.Initialize(t, mcptest.LegacyVersion, nil).Call(t, "tasks/list", map[string]any{"cursor": cursor}), -32602, 200, "params.cursor")
	for _, bad := range []any{"", "x", cursor + "x", 7, map[string]any{}} {
		failsWith(t, s.Call(t, "tasks/list", map[string]any{"cursor": bad}), -32602, 200, "params.cursor")
	}
	failsWith(t, s.Call(t, "tools/list", map[string]any{"cursor": cursor}), -32602, 200, "params.cursor")
}
