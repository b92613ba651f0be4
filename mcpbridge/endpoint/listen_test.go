package endpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/auth"
	"github.com/mcptask/mcptask/mcpbridge/mcptest"
)

func notifications(filter map[string]any) map[string]any {
	return map[string]any{"notifications": filter}
}

func taskIDs(ids ...string) map[string]any {
	return notifications(map[string]any{"taskIds": append([]string{}, ids...)})
}

func working(message string) v1alpha1.McpTaskStatus {
	return v1alpha1.McpTaskStatus{State: v1alpha1.TaskWorking, Message: message}
}

// forget deletes a task.
func (c *cluster) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := types.NamespacedName{Namespace: "team", Name: id}
	delete(c.tasks, key)
	c.store.Forget(key)
}

// acknowledged reads the acknowledgement, the first message of a stream.
func acknowledged(t *testing.T, s *mcptest.Stream, id, granted string) {
	t.Helper()
	got := s.Next(patience)
	want := `{"notifications":` + granted + `,"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}}`
	if got.Method != "notifications/subscriptions/acknowledged" || string(got.Params) != want {
		t.Fatalf("got %s %s\nwant the acknowledgement %s", got.Method, got.Params, want)
	}
}

// told reads a notification of a task, which must say what tasks/get says now to the same client.
func told(t *testing.T, client mcptest.Client, s *mcptest.Stream, streamID, id string) {
	t.Helper()
	got := s.Next(patience)
	polled := string(client.Call(t, "tasks/get", map[string]any{"taskId": id}).Result)
	polled = strings.Replace(polled, `{"resultType":"complete",`, `{`, 1)
	want := polled[:strings.LastIndex(polled, `"_meta":`)] + `"_meta":{"io.modelcontextprotocol/subscriptionId":` + streamID + `}}`
	if got.Method != "notifications/tasks" || string(got.Params) != want {
		t.Fatalf("got %s %s\nwant notifications/tasks %s", got.Method, got.Params, want)
	}
}

// metric is the value of a gauge or counter, of all its labels together.
func (f *fixture) metric(t testing.TB, name string) float64 {
	t.Helper()
	families, err := f.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() == "mcptask_bridge_"+name {
			for _, metric := range family.GetMetric() {
				sum += metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
			}
		}
	}
	return sum
}

func TestListenTellsThePresentStateAndEachChange(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	one, two := f.handle(t, "tool"), f.handle(t, "tool")
	f.cluster.change(t, two, completed(`{"content":[{"type":"text","text":"<done>"}]}`))
	reads := f.cluster.reads
	s := f.alice.Open(t, "subscriptions/listen", taskIDs(two, one, two))
	if got := s.Header.Get("X-Accel-Buffering"); got != "no" {
		t.Errorf("X-Accel-Buffering is %q", got)
	}
	acknowledged(t, s, "1", `{"taskIds":["`+two+`","`+one+`"]}`)
	told(t, f.alice, s, "1", two)
	told(t, f.alice, s, "1", one)
	f.cluster.change(t, one, working("half"))
	told(t, f.alice, s, "1", one)
	// What clients are not shown is no change for them.
	f.cluster.change(t, one, v1alpha1.McpTaskStatus{State: v1alpha1.TaskWorking, Message: "half", PodUIDs: []types.UID{"pod"}})
	f.cluster.change(t, one, v1alpha1.McpTaskStatus{State: v1alpha1.TaskFailed, Message: "no image"})
	told(t, f.alice, s, "1", one)
	if f.cluster.reads != reads {
		t.Errorf("%d requests to the API server", f.cluster.reads-reads)
	}
	if got := f.metric(t, "notifications_total"); got != 4 {
		t.Errorf("%v notifications are counted", got)
	}
	if got := f.metric(t, "streams"); got != 1 {
		t.Errorf("%v streams are counted", got)
	}
	s.Leave()
	eventually(t, "the stream is gone", func() bool { return f.metric(t, "streams") == 0 })
}

func TestListenKeepsTheIDOfTheRequest(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	known := f.handle(t, "tool")
	for _, id := range []string{`1`, `"1"`, `9007199254740993`, `-123456789012345678901234567890`, `"\u00e9\"x"`} {
		s := f.alice.Open(t, "subscriptions/listen", nil, mcptest.Body(
			`{"jsonrpc":"2.0","id":`+id+`,"method":"subscriptions/listen","params":{"notifications":{"taskIds":["`+known+`"]},`+listenMeta+`}}`))
		acknowledged(t, s, id, `{"taskIds":["`+known+`"]}`)
		told(t, f.alice, s, id, known)
		s.Leave()
	}
	failsWith(t, f.alice.Call(t, "subscriptions/listen", nil, mcptest.Body(
		`{"jsonrpc":"2.0","id":"`+strings.Repeat("x", 2000)+`","method":"subscriptions/listen","params":{"notifications":{},`+listenMeta+`}}`)),
		-32600, 400, "id of subscriptions/listen")
}

const listenMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
	`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`

func TestListenGrantsTheCallersOwnTasks(t *testing.T) {
	f := newFixture(t, nil)
	f.subscriptions.rhythm.heartbeat = 20 * time.Millisecond
	f.offer("tool", nil)
	known := f.handle(t, "tool")
	bob := f.alice
	bob.Token = "bob"
	s := bob.Open(t, "subscriptions/listen", taskIDs(known, v1alpha1.NewTaskID(), "nonsense"))
	acknowledged(t, s, "1", `{"taskIds":[]}`)
	if log := f.log.String(); !strings.Contains(log, `"issuer":"test","subject":"bob","method":"subscriptions/listen","namespace":"team","task":"`+known+`"`) ||
		strings.Count(log, `"why":"no such task"`) != 2 {
		t.Errorf("the log does not say who listened to what: %s", log)
	}
	f.cluster.change(t, known, completed(`{}`))
	for range 3 { // it stays open, and silent
		s.Comment(patience)
	}
	own := f.alice.Open(t, "subscriptions/listen", taskIDs("nonsense", known))
	acknowledged(t, own, "1", `{"taskIds":["`+known+`"]}`)
	told(t, f.alice, own, "1", known)
	own.Comment(patience) // a task that has ended does not end the stream
}

// An id that is dead for long must not keep a client from the tasks that live, however many there are.
func TestListenToManyUnknownTasks(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	ids := []string{f.handle(t, "tool")}
	for range 100 {
		ids = append(ids, v1alpha1.NewTaskID())
	}
	s := f.alice.Open(t, "subscriptions/listen", taskIDs(ids...))
	acknowledged(t, s, "1", `{"taskIds":["`+ids[0]+`"]}`)
	if f.cluster.reads > 60 {
		t.Errorf("%d live reads", f.cluster.reads)
	}
}

func TestListenRefuses(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	without := f.alice
	without.Tasks = false
	for _, params := range []map[string]any{taskIDs(v1alpha1.NewTaskID()), taskIDs()} {
		response := without.Call(t, "subscriptions/listen", params)
		failsWith(t, response, -32021, 400, "io.modelcontextprotocol/tasks")
		if want := `{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`; string(response.Error.Data) != want {
			t.Errorf("data is %s", response.Error.Data)
		}
	}
	if f.cluster.reads != 0 {
		t.Error("an id was looked up first")
	}
	for field, value := range map[string]any{"toolsListChanged": "yes", "taskIds": "x", "resourceSubscriptions": 7} {
		failsWith(t, f.alice.Call(t, "subscriptions/listen", notifications(map[string]any{field: value})), -32602, 400, "params.notifications."+field)
	}
	failsWith(t, f.alice.Call(t, "subscriptions/listen", nil), -32602, 400, "params.notifications must be an object")
	if got := f.metric(t, "streams"); got != 0 {
		t.Errorf("%v streams are counted", got)
	}
}

// What this server does not tell of is missing in the acknowledgement, and nothing is told that was not asked for.
func TestListenAcknowledgesWhatThereIs(t *testing.T) {
	f := newFixture(t, nil)
	f.subscriptions.rhythm.heartbeat = 20 * time.Millisecond
	without := f.alice
	without.Tasks = false
	s := without.Open(t, "subscriptions/listen", notifications(map[string]any{"promptsListChanged": true, "resourceSubscriptions": []string{"file:///a"}, "toolsListChanged": false}))
	acknowledged(t, s, "1", `{}`)
	f.offer("tool", nil)
	s.Comment(patience)
}

func TestListenTellsOfTools(t *testing.T) {
	f := newFixture(t, nil)
	f.subscriptions.rhythm.heartbeat, f.subscriptions.rhythm.tools = 300*time.Millisecond, 100*time.Millisecond
	without := f.alice
	without.Tasks = false
	s := without.Open(t, "subscriptions/listen", notifications(map[string]any{"toolsListChanged": true}))
	acknowledged(t, s, "1", `{"toolsListChanged":true}`)
	// told counts the notifications until there are no more.
	told := func(what string, least, most int) {
		t.Helper()
		n := 0
		for message, silent := s.NextOrComment(patience); !silent; message, silent = s.NextOrComment(patience) {
			if message.Method != "notifications/tools/list_changed" || string(message.Params) != `{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}` {
				t.Fatalf("got %s %s", message.Method, message.Params)
			}
			n++
		}
		if n < least || n > most {
			t.Errorf("%s: told %d times, want %d to %d", what, n, least, most)
		}
	}
	told("nothing", 0, 0)
	f.offer("tool", nil)
	told("a tool", 1, 1)
	for i := range 100 {
		f.offer(fmt.Sprint("tool-", i), nil)
	}
	told("many tools", 1, 10)
	f.offer("tool", nil)
	told("a status that is written again", 0, 0)
	other := &v1alpha1.McpTool{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "tool", UID: "other", Generation: 1}}
	other.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: 1}}
	f.Tools.Observe(other)
	told("another namespace", 0, 0)
	f.Tools.Forget(&v1alpha1.McpTool{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "tool"}})
	told("a tool that is gone", 1, 1)
}

// Each stream shows the questions that its own client can ask.
func TestListenShowsQuestionsByCapability(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	known := f.handle(t, "tool")
	able := f.alice
	able.Elicitation = []string{"form"}
	ableStream, unableStream := able.Open(t, "subscriptions/listen", taskIDs(known)), f.alice.Open(t, "subscriptions/listen", taskIDs(known))
	both := func() {
		t.Helper()
		told(t, able, ableStream, "1", known)
		told(t, f.alice, unableStream, "1", known)
	}
	acknowledged(t, ableStream, "1", `{"taskIds":["`+known+`"]}`)
	acknowledged(t, unableStream, "1", `{"taskIds":["`+known+`"]}`)
	both()
	f.cluster.change(t, known, v1alpha1.McpTaskStatus{State: v1alpha1.TaskInputRequired, InputRequests: []v1alpha1.InputRequest{
		{Key: "q", Method: "elicitation/create", Params: runtime.RawExtension{Raw: []byte(`{"message":"Sure?"}`)}}}})
	both()
	asked := func(client mcptest.Client) bool {
		return strings.Contains(client.Call(t, "tasks/get", map[string]any{"taskId": known}).Raw, "Sure?")
	}
	if !asked(able) || asked(f.alice) {
		t.Error("tasks/get does not tell the clients apart")
	}
	// The answer is told as soon as it is stored, before the controller has seen it.
	if _, err := f.cluster.Answer(t.Context(), types.NamespacedName{Namespace: "team", Name: known}, func(*v1alpha1.McpTask) []v1alpha1.InputResponse {
		return []v1alpha1.InputResponse{{Key: "q", Response: runtime.RawExtension{Raw: []byte(`{"action":"accept"}`)}}}
	}); err != nil {
		t.Fatal(err)
	}
	both()
}

func TestListenFallsSilentAboutADeletedTask(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	gone, stays := f.handle(t, "tool"), f.handle(t, "tool")
	s := f.alice.Open(t, "subscriptions/listen", taskIDs(gone, stays))
	acknowledged(t, s, "1", `{"taskIds":["`+gone+`","`+stays+`"]}`)
	told(t, f.alice, s, "1", gone)
	told(t, f.alice, s, "1", stays)
	f.cluster.forget(gone)
	// Somebody makes a task of the same name: it is not Alice's.
	task := &v1alpha1.McpTask{Spec: v1alpha1.McpTaskSpec{ToolName: "tool", Owner: &v1alpha1.Identity{Issuer: "test", Subject: "bob"}}}
	task.Namespace, task.Name, task.UID = "team", gone, "another"
	f.cluster.mu.Lock()
	f.cluster.put(task)
	f.cluster.mu.Unlock()
	f.cluster.change(t, stays, working("on"))
	told(t, f.alice, s, "1", stays)
}

func TestListenHasLimits(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.MaxStreamsPerCaller, c.MaxStreams = 2, 3 })
	bob, carol := f.alice, f.alice
	bob.Token, carol.Token = "bob", "carol"
	open := func(client mcptest.Client) *mcptest.Stream {
		t.Helper()
		s := client.Open(t, "subscriptions/listen", taskIDs("x"))
		acknowledged(t, s, "1", `{"taskIds":[]}`)
		return s
	}
	first := open(f.alice)
	open(f.alice)
	failsWith(t, f.alice.Call(t, "subscriptions/listen", taskIDs("x")), 429, 429, "you have 2 streams of notifications open")
	open(bob)
	failsWith(t, carol.Call(t, "subscriptions/listen", taskIDs("x")), 429, 503, "3 streams of notifications are open")
	first.Leave()
	eventually(t, "the place is free", func() bool { return f.metric(t, "streams") == 2 })
	open(carol)
	if response := f.alice.Call(t, "tools/list", nil); response.Error != nil {
		t.Errorf("other requests are refused: %s", response.Raw)
	}
}

func TestListenEndsWithTheBridge(t *testing.T) {
	f := newFixture(t, nil)
	f.offer("tool", nil)
	known := f.handle(t, "tool")
	s := f.alice.Open(t, "subscriptions/listen", taskIDs(known))
	acknowledged(t, s, "1", `{"taskIds":["`+known+`"]}`)
	told(t, f.alice, s, "1", known)
	f.Drain()
	ends(t, s, "the server is shutting down")
	if f.cluster.only(t).Spec.Cancel != nil {
		t.Error("the task was cancelled")
	}
}

// ends reads the messages with which the server ends a stream.
func ends(t *testing.T, s *mcptest.Stream, reason string) {
	t.Helper()
	const meta = `"_meta":{"io.modelcontextprotocol/subscriptionId":1}`
	if got := s.Next(patience); string(got.ID) != "1" || string(got.Result) != `{"resultType":"complete",`+meta+`}` {
		t.Errorf("no response but %s %s %s", got.ID, got.Method, got.Result)
	}
	if got := s.Next(patience); got.Method != "notifications/cancelled" || string(got.Params) != `{"requestId":1,"reason":"`+reason+`",`+meta+`}` {
		t.Errorf("got %s %s", got.Method, got.Params)
	}
	s.End(patience)
}

// revocable identifies callers by their token until they are revoked.
type revocable struct {
	names
	answer atomic.Pointer[error]
}

func (r *revocable) Authenticate(ctx context.Context, request auth.Request) (auth.Principal, error) {
	if err := r.answer.Load(); err != nil {
		return auth.Principal{}, *err
	}
	return r.names.Authenticate(ctx, request)
}

// A stream may outlast the credentials that it was opened with. It must not outlast their revocation for long.
func TestListenEndsWithTheCredentials(t *testing.T) {
	source := &revocable{}
	f := newFixture(t, func(c *Config) { c.Authenticator = source })
	f.subscriptions.rhythm.heartbeat, f.subscriptions.rhythm.review = 50*time.Millisecond, 10*time.Millisecond
	s := f.alice.Open(t, "subscriptions/listen", taskIDs("x"))
	acknowledged(t, s, "1", `{"taskIds":[]}`)
	source.answer.Store(&auth.ErrUnavailable)
	s.Comment(patience) // an outage changes nothing
	source.answer.Store(&auth.ErrRefused)
	ends(t, s, "the credentials are no longer accepted")
	if !strings.Contains(f.log.String(), "no longer accepted") {
		t.Error("the log does not say it")
	}
}

func TestDiscoverDeclaresToolChanges(t *testing.T) {
	f := newFixture(t, nil)
	var discovered struct {
		Capabilities struct{ Tools map[string]json.RawMessage }
	}
	if err := json.Unmarshal(f.alice.Call(t, "server/discover", nil).Result, &discovered); err != nil {
		t.Fatal(err)
	}
	if got := discovered.Capabilities.Tools; string(got["listChanged"]) != "true" || len(got) != 1 {
		t.Errorf("tools are declared with %s", got)
	}
}
