package runtimeport

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/audit"
	"github.com/mcptask/mcptask/mcpbridge/auth"
	"github.com/mcptask/mcptask/mcpbridge/tasks"
)

// cluster is an API server that has tasks and knows tokens, and the watch of one replica.
type cluster struct {
	tasks.API
	store *tasks.Store
	// fail answers a write instead.
	fail func(reports []v1alpha1.RuntimeReport) error
	// lagging says that the watch shows nothing new.
	lagging bool

	mu     sync.Mutex
	tasks  map[types.NamespacedName]*v1alpha1.McpTask
	tokens map[string]token
	// writes are the sequences of what was written, by the time of the write.
	writes         []write
	reads, reviews int
	version        int
}

type write struct {
	at        time.Time
	sequences map[types.UID]int64
}

// token is what a review says of a token.
type token struct {
	audience, user string
	pod            types.UID
	err            error
}

func newCluster() *cluster {
	return &cluster{store: tasks.NewStore(nil), tasks: map[types.NamespacedName]*v1alpha1.McpTask{}, tokens: map[string]token{}}
}

func notFound(name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Group: "mcptask.dev", Resource: "mcptasks"}, name)
}

func keyOf(task *v1alpha1.McpTask) types.NamespacedName {
	return types.NamespacedName{Namespace: task.Namespace, Name: task.Name}
}

// put stores a task and shows it to the replica. The lock is held.
func (c *cluster) put(task *v1alpha1.McpTask) *v1alpha1.McpTask {
	c.version++
	task = task.DeepCopy()
	task.ResourceVersion = strconv.Itoa(c.version)
	c.tasks[keyOf(task)] = task
	if !c.lagging {
		seen, _ := c.store.Strip(task.DeepCopy())
		c.store.Observe(seen.(*v1alpha1.McpTask))
	}
	return task.DeepCopy()
}

// change changes a task, as others would.
func (c *cluster) change(key types.NamespacedName, change func(*v1alpha1.McpTask)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	task := c.tasks[key].DeepCopy()
	change(task)
	c.put(task)
}

func (c *cluster) stored(key types.NamespacedName) *v1alpha1.McpTask {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tasks[key].DeepCopy()
}

func (c *cluster) written() []write {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.writes)
}

// newTask stores a working task with Pods.
func (c *cluster) newTask(namespace string, pods ...types.UID) types.NamespacedName {
	c.mu.Lock()
	defer c.mu.Unlock()
	task := &v1alpha1.McpTask{}
	task.Namespace, task.Name = namespace, v1alpha1.NewTaskID()
	task.UID = types.UID("uid-" + task.Name)
	task.Status = v1alpha1.McpTaskStatus{State: v1alpha1.TaskWorking, PodUIDs: pods}
	c.put(task)
	for _, pod := range pods {
		c.tokens["token-"+string(pod)] = token{audience: Audience(task), user: "system:serviceaccount:" + namespace + ":default", pod: pod}
	}
	return keyOf(task)
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

func (c *cluster) Report(_ context.Context, key types.NamespacedName, reports func(*v1alpha1.McpTask) ([]v1alpha1.RuntimeReport, error)) (*v1alpha1.McpTask, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	stored, ok := c.tasks[key]
	if !ok {
		return nil, notFound(key.Name)
	}
	task := stored.DeepCopy()
	news, err := reports(task)
	if err != nil || len(news) == 0 {
		return task, err
	}
	if c.fail != nil {
		if err := c.fail(news); err != nil {
			return nil, err
		}
	}
	w := write{at: time.Now(), sequences: map[types.UID]int64{}}
	for _, r := range news {
		w.sequences[r.PodUID] = r.Sequence
		task.Status.Runtime = append(others(task, r.PodUID), r)
	}
	c.writes = append(c.writes, w)
	return c.put(task), nil
}

// Authenticate reviews a token.
func (c *cluster) Authenticate(_ context.Context, r auth.Request) (auth.Principal, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reviews++
	bearer, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	known, ok := c.tokens[bearer]
	switch {
	case known.err != nil:
		return auth.Principal{}, known.err
	case !ok || !slices.Contains(r.Audiences, known.audience):
		return auth.Principal{}, auth.ErrRefused
	}
	return auth.Principal{Identity: v1alpha1.Identity{Issuer: auth.IssuerKubernetes, Subject: known.user}, PodUID: known.pod}, nil
}

// newPort serves the cluster's Pods; what it logs goes to log.
func newPort(c *cluster, log *bytes.Buffer) *Port {
	registry, lines := prometheus.NewRegistry(), slog.New(slog.NewJSONHandler(log, nil))
	return New(Config{Tokens: c, Store: c.store, API: c, Log: lines, Audit: audit.New(lines, registry), Registry: registry})
}

// counted is a metric's value for the values of its labels.
func counted(t testing.TB, p *Port, name string, labels ...string) float64 {
	t.Helper()
	families, err := p.Registry.(*prometheus.Registry).Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "mcptask_bridge_runtime_"+name {
			continue
		}
		for _, metric := range family.GetMetric() {
			var values []string
			for _, label := range metric.GetLabel() {
				values = append(values, label.GetValue())
			}
			if slices.Equal(values, labels) {
				return metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			}
		}
	}
	return 0
}

// got is an answer of the port.
type got struct {
	status  int
	body    string
	words   string
	header  http.Header
	decoded struct {
		Sequence int64    `json:"sequence"`
		Count    *int     `json:"count"`
		Answers  []answer `json:"answers"`
		Error    string   `json:"error"`
	}
}

func call(t testing.TB, p http.Handler, method, path, token, body string) got {
	return callWith(t, t.Context(), p, method, path, token, body)
}

func callWith(t testing.TB, ctx context.Context, p http.Handler, method, path, token, body string) got { //nolint:revive // t comes first in this package
	request := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	recorder := httptest.NewRecorder()
	p.ServeHTTP(recorder, request)
	g := got{status: recorder.Code, body: recorder.Body.String(), header: recorder.Header()}
	if recorder.Body.Len() > 0 {
		if err := json.Unmarshal(recorder.Body.Bytes(), &g.decoded); err != nil {
			t.Errorf("%s %s: the answer is not JSON: %q", method, path, g.body)
		}
	}
	g.words = g.decoded.Error
	return g
}

func reportPath(key types.NamespacedName) string {
	return "/v1/namespaces/" + key.Namespace + "/tasks/" + key.Name + "/report"
}

func answersPath(key types.NamespacedName) string {
	return "/v1/namespaces/" + key.Namespace + "/tasks/" + key.Name + "/answers"
}
