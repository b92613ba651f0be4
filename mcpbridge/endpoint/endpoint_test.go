package endpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/audit"
	"github.com/mcptask/mcptask/mcpbridge/auth"
	"github.com/mcptask/mcptask/mcpbridge/auth/access"
	"github.com/mcptask/mcptask/mcpbridge/limits"
	"github.com/mcptask/mcptask/mcpbridge/mcptest"
	"github.com/mcptask/mcptask/mcpbridge/seal"
	"github.com/mcptask/mcptask/mcpbridge/tasks"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

// patience is how long something may take that should happen at once.
const patience = 10 * time.Second

// cluster is an API server in memory. What is written to it reaches the store as a watch would bring it.
type cluster struct {
	store *tasks.Store
	// replicas are the stores of further replicas.
	replicas []*tasks.Store

	mu      sync.Mutex
	version int
	tasks   map[types.NamespacedName]*v1alpha1.McpTask
	reads   int
	writes  int
	// onCreate replaces the answer of a creation.
	onCreate func(stored *v1alpha1.McpTask) error
	// deaf keeps the watch from showing anything.
	deaf bool
}

func notFound(name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Group: "mcptask.dev", Resource: "mcptasks"}, name)
}

func (c *cluster) put(task *v1alpha1.McpTask) *v1alpha1.McpTask {
	c.version++
	task.ResourceVersion = strconv.Itoa(c.version)
	c.tasks[types.NamespacedName{Namespace: task.Namespace, Name: task.Name}] = task.DeepCopy()
	if !c.deaf {
		c.store.Observe(task.DeepCopy())
		for _, replica := range c.replicas {
			replica.Observe(task.DeepCopy())
		}
	}
	return task.DeepCopy()
}

func (c *cluster) Get(_ context.Context, key types.NamespacedName) (*v1alpha1.McpTask, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads++
	if task, ok := c.tasks[key]; ok {
		return task.DeepCopy(), nil
	}
	return nil, notFound(key.Name)
}

func (c *cluster) Create(_ context.Context, task *v1alpha1.McpTask) (*v1alpha1.McpTask, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes++
	task = task.DeepCopy()
	task.UID, task.CreationTimestamp = types.UID("uid-"+task.Name), metav1.Now()
	if c.onCreate != nil {
		if err := c.onCreate(task); err != nil {
			return nil, err
		}
	}
	return c.put(task), nil
}

func (c *cluster) Cancel(_ context.Context, key types.NamespacedName, request v1alpha1.CancelRequest) (*v1alpha1.McpTask, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes++
	task, ok := c.tasks[key]
	if !ok {
		return nil, notFound(key.Name)
	}
	task = task.DeepCopy()
	if task.Status.State.Terminal() || task.Spec.Cancel != nil {
		return task, nil
	}
	task.Spec.Cancel = &request
	return c.put(task), nil
}

func (c *cluster) Report(_ context.Context, key types.NamespacedName, reports func(*v1alpha1.McpTask) ([]v1alpha1.RuntimeReport, error)) (*v1alpha1.McpTask, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	task, ok := c.tasks[key]
	if !ok {
		return nil, notFound(key.Name)
	}
	task = task.DeepCopy()
	news, err := reports(task)
	if err != nil || len(news) == 0 {
		return task, err
	}
	c.writes++
	task.Status.Runtime = news // one report of one Pod is enough here
	return c.put(task), nil
}

func (c *cluster) Answer(_ context.Context, key types.NamespacedName, answers func(*v1alpha1.McpTask) []v1alpha1.InputResponse) (*v1alpha1.McpTask, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	task, ok := c.tasks[key]
	if !ok {
		return nil, notFound(key.Name)
	}
	task = task.DeepCopy()
	news := answers(task)
	if len(news) == 0 {
		return task, nil
	}
	c.writes++
	task.Spec.InputResponses = append(task.Spec.InputResponses, news...)
	return c.put(task), nil
}

func (c *cluster) Mark(_ context.Context, key types.NamespacedName, annotation string, value func(*v1alpha1.McpTask) string) (*v1alpha1.McpTask, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	task, ok := c.tasks[key]
	if !ok {
		return nil, notFound(key.Name)
	}
	task = task.DeepCopy()
	text := value(task)
	if text == "" {
		return task, nil
	}
	c.writes++
	if task.Annotations == nil {
		task.Annotations = map[string]string{}
	}
	task.Annotations[annotation] = text
	return c.put(task), nil
}

// change changes the status of a task, as the controller would.
func (c *cluster) change(t testing.TB, name string, status v1alpha1.McpTaskStatus) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	task, ok := c.tasks[types.NamespacedName{Namespace: "team", Name: name}]
	if !ok {
		t.Fatalf("there is no task %q", name)
	}
	task = task.DeepCopy()
	task.Status = status
	c.put(task)
}

// only waits for the only task and returns it.
func (c *cluster) only(t testing.TB) *v1alpha1.McpTask {
	t.Helper()
	var found *v1alpha1.McpTask
	eventually(t, "there is a task", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, task := range c.tasks {
			found = task.DeepCopy()
		}
		return len(c.tasks) == 1
	})
	return found
}

// stored is a task as it is stored.
func (c *cluster) stored(name string) *v1alpha1.McpTask {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tasks[types.NamespacedName{Namespace: "team", Name: name}].DeepCopy()
}

// all are the tasks that are stored.
func (c *cluster) all() (tasks []*v1alpha1.McpTask) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, task := range c.tasks {
		tasks = append(tasks, task.DeepCopy())
	}
	return tasks
}

func (c *cluster) readCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads
}

func (c *cluster) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.tasks)
}

// names identifies callers by their token: the token is the name.
type names struct{}

func (names) Authenticate(_ context.Context, r auth.Request) (auth.Principal, error) {
	name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case !ok:
		return auth.Principal{}, auth.ErrNoCredentials
	case name == "unknown":
		return auth.Principal{}, auth.ErrRefused
	case name == "outage":
		return auth.Principal{}, fmt.Errorf("%w: secret-host.internal", auth.ErrUnavailable)
	}
	return auth.Principal{Identity: v1alpha1.Identity{Issuer: "test", Subject: name}}, nil
}

// unlimited leaves the limits to the tests that are about them.
var unlimited = limits.Limits{StoredTasksPerNamespace: 1e6, StoredTasksPerCaller: 1e6, RunningTasksPerCaller: 1e6, CallsPerMinute: 1e6, PollsPerSecond: 1e6}

type fixture struct {
	*Endpoint
	cluster *cluster
	alice   mcptest.Client
	log     *logBuffer
	metrics *prometheus.Registry
	// published are the tools on offer.
	published []*v1alpha1.McpTool
}

// logBuffer is a log that several goroutines write.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newFixture(t testing.TB, change func(*Config)) *fixture {
	f := &fixture{log: &logBuffer{}, metrics: prometheus.NewRegistry()}
	store := tasks.NewStore(nil)
	f.cluster = &cluster{store: store, tasks: map[types.NamespacedName]*v1alpha1.McpTask{}}
	keys, err := seal.NewKeys([]byte(strings.Repeat("k", 32)))
	if err != nil {
		t.Fatal(err)
	}
	config := Config{
		PublicURL: "https://mcp.example.com", DefaultNamespace: "team", MaxBodyBytes: 1 << 20, MaxWaitingCalls: 10,
		MaxStreamsPerCaller: 64, MaxStreams: 1000, Limits: unlimited,
		Server: wire.ServerInfo{Name: "mcptask-bridge", Version: "test"}, Authenticator: names{}, Store: store, API: f.cluster, Keys: keys,
		Log:     slog.New(slog.NewJSONHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Metrics: NewMetrics(f.metrics), Access: access.Everyone{},
	}
	config.Audit = audit.New(config.Log, f.metrics)
	if change != nil {
		change(&config)
	}
	f.Endpoint = New(config)
	server := httptest.NewServer(f.Endpoint)
	t.Cleanup(server.Close)
	f.alice = mcptest.Client{URL: server.URL + "/mcp/team", Token: "alice", Tasks: true}
	return f
}

// offer publishes a tool.
func (f *fixture) offer(name string, change func(*v1alpha1.McpToolSpec)) {
	tool := &v1alpha1.McpTool{}
	tool.Namespace, tool.Name, tool.UID, tool.Generation = "team", name, types.UID(name), 1
	tool.Spec.Description = "d"
	if change != nil {
		change(&tool.Spec)
	}
	tool.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: 1}}
	f.Tools.Observe(tool)
	f.published = append(f.published, tool)
}

func waits(support v1alpha1.TaskSupport, window, wait time.Duration) func(*v1alpha1.McpToolSpec) {
	return func(spec *v1alpha1.McpToolSpec) {
		spec.Execution = v1alpha1.ToolExecution{TaskSupport: support,
			SyncWindow: &metav1.Duration{Duration: window}, MaxWait: &metav1.Duration{Duration: wait}}
	}
}

// handle calls the tool and returns the task that the caller got.
func (f *fixture) handle(t testing.TB, tool string) string {
	t.Helper()
	response := f.alice.Call(t, "tools/call", map[string]any{"name": tool})
	var handle struct{ ResultType, TaskID string }
	if response.Error != nil || json.Unmarshal(response.Result, &handle) != nil || handle.ResultType != "task" {
		t.Fatalf("no handle but %s", response.Raw)
	}
	return handle.TaskID
}

func completed(result string) v1alpha1.McpTaskStatus {
	return v1alpha1.McpTaskStatus{State: v1alpha1.TaskCompleted, Result: &v1alpha1.TaskResult{Inline: &runtime.RawExtension{Raw: []byte(result)}}}
}

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// start sends a call whose answer takes a while.
func start(t *testing.T, client mcptest.Client, method string, params map[string]any) (answer func() *mcptest.Response, leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	request, err := client.Request(ctx, method, params)
	if err != nil {
		t.Fatal(err)
	}
	type outcome struct {
		response *mcptest.Response
		err      error
	}
	done := make(chan outcome, 1)
	go func() {
		response, err := mcptest.Do(request)
		done <- outcome{response, err}
	}()
	return func() *mcptest.Response {
		t.Helper()
		select {
		case o := <-done:
			if o.err != nil {
				t.Fatal(o.err)
			}
			return o.response
		case <-time.After(patience):
			t.Fatal("no answer")
			return nil
		}
	}, cancel
}

// failsWith checks an error's code, HTTP status and words.
func failsWith(t testing.TB, response *mcptest.Response, code int64, status int, words string) {
	t.Helper()
	if response.Error == nil || response.Error.Code != code || response.Status != status || !strings.Contains(response.Error.Message, words) {
		t.Errorf("got HTTP %d with %s\nwant HTTP %d with %d and %q", response.Status, response.Raw, status, code, words)
	}
}

var errRefused = errors.New("dial tcp 10.0.0.1:443: connection refused")

var _ http.Handler = (*Endpoint)(nil)
