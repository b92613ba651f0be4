package tasks

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/resultsecret"
	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/mcptest"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

// done is a completed task with a result in it.
func done(name, version, result string) *v1alpha1.McpTask {
	t := task(name, version)
	t.Status.State = v1alpha1.TaskCompleted
	t.Status.Result = &v1alpha1.TaskResult{Inline: &kruntime.RawExtension{Raw: []byte(result)}, SHA256: resultsecret.Hash([]byte(result))}
	return t
}

func textResult(text string) string { return `{"content":[{"text":"` + text + `","type":"text"}]}` }

// watch shows a task to the store as the watch does.
func watch(t testing.TB, s *Store, task *v1alpha1.McpTask) {
	t.Helper()
	seen, err := s.Strip(task.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	s.Observe(seen.(*v1alpha1.McpTask))
}

func TestWhatWasAskedForLongestAgoIsLetGoFirst(t *testing.T) {
	c := newLRU[string, int](100)
	for i, size := range []int64{40, 40, 20} {
		c.add(fmt.Sprint(i), i, size)
	}
	c.get("0")
	c.add("3", 3, 30)
	for key, want := range map[string]bool{"0": true, "1": false, "2": true, "3": true} {
		if _, ok := c.get(key); ok != want {
			t.Errorf("%s is kept: %v", key, ok)
		}
	}
	c.add("0", 9, 50)
	c.add("huge", 0, 101)
	if value, _ := c.get("0"); value != 9 || c.size > 100 || len(c.items) != c.order.Len() {
		t.Errorf("0 is %d; %d bytes in %d entries and %d", value, c.size, len(c.items), c.order.Len())
	}
	if _, ok := c.get("huge"); ok {
		t.Error("what is larger than the bound is kept")
	}
	c.remove("0")
	c.remove("0")
	if _, ok := c.get("0"); ok || c.size < 0 {
		t.Errorf("what was removed is there, or %d bytes", c.size)
	}
}

func TestResultsDoNotStayInTheWatchsCache(t *testing.T) {
	s := NewStore(nil)
	const tasks = 5000
	result := textResult(strings.Repeat("x", 16_000))
	for i := range tasks {
		watch(t, s, done(fmt.Sprint("t", i), fmt.Sprint(i+1), result))
	}
	for i := range tasks {
		if got, ok := s.Get(key(fmt.Sprint("t", i))); !ok || got.Status.Result.Inline != nil || got.Status.Result.SHA256 == "" {
			t.Fatalf("the store has %+v", got.Status.Result)
		}
	}
	if kept := len(s.inline.items); s.inline.size > maxInlineBytes || kept < 900 || kept == tasks {
		t.Errorf("%d results with %d bytes are kept", kept, s.inline.size)
	}
	s.Forget(key(fmt.Sprint("t", tasks-1)))
	if _, ok := s.inline.get(types.UID(fmt.Sprint("t", tasks-1))); ok {
		t.Error("the result of a task that is gone is kept")
	}
}

func TestAResultThatIsNotHeldCostsOneRead(t *testing.T) {
	a := &server{stored: map[string]*v1alpha1.McpTask{}, slow: make(chan struct{})}
	s := NewStore(nil)
	var read atomic.Int64
	payloads := NewPayloads(wire.ServerInfo{Name: "s"}, NewResults(s, a, &mcptest.Secrets{}, func() { read.Add(1) }))
	a.stored["a"] = done("a", "5", textResult("hello"))
	watch(t, s, a.stored["a"])
	get := func(name string) (*Payload, error) {
		task, _ := s.Get(key(name))
		return payloads.Of(t.Context(), task, Tool{}, wire.Elicitation{})
	}
	if p, err := get("a"); err != nil || !strings.Contains(string(p.Get), "hello") || a.reads.Load() != 0 {
		t.Fatalf("a result that has just come: %v, %d reads", err, a.reads.Load())
	}

	s.inline.remove("a")
	payloads.built.remove(version{task: "a", resourceVersion: "5"})
	var waiting sync.WaitGroup
	for range 20 {
		waiting.Go(func() {
			if p, err := get("a"); err != nil || !strings.Contains(string(p.Get), "hello") {
				t.Errorf("%v", err)
			}
		})
	}
	close(a.slow)
	waiting.Wait()
	if a.reads.Load() != 1 || read.Load() != 1 {
		t.Errorf("%d reads, counted %d", a.reads.Load(), read.Load())
	}

	a.stored["b"] = done("b", "6", textResult("bye"))
	watch(t, s, a.stored["b"])
	s.inline.remove("b")
	task, _ := s.Get(key("b"))
	if brief := payloads.Brief(task, Tool{}, wire.Elicitation{}); brief.Status != v1alpha1.TaskCompleted || a.reads.Load() != 1 {
		t.Errorf("to list a task costs %d reads", a.reads.Load())
	}
	delete(a.stored, "b")
	if _, err := get("b"); !errors.Is(err, ErrUnknown) {
		t.Errorf("the result of a task that is gone: %v", err)
	}
}

func TestResultsInSecretsAreReadWhenAskedFor(t *testing.T) {
	s, secrets, a := NewStore(nil), &mcptest.Secrets{}, &server{}
	payloads := NewPayloads(wire.ServerInfo{Name: "s"}, NewResults(s, a, secrets, func() {}))
	stored := task("a", "5")
	raw := []byte(textResult(strings.Repeat("x", 600_000)))
	hash := resultsecret.Hash(raw)
	if err := resultsecret.Write(t.Context(), stored, hash, int64(len(raw)), bytes.NewReader(raw), secrets.StoreSecret); err != nil {
		t.Fatal(err)
	}
	stored.Status.State = v1alpha1.TaskCompleted
	stored.Status.Result = &v1alpha1.TaskResult{SHA256: hash, SecretRef: resultsecret.Reference(stored, hash, int64(len(raw)))}
	watch(t, s, stored)
	get := func() (*Payload, error) { return payloads.Of(t.Context(), stored, Tool{}, wire.Elicitation{}) }
	if secrets.Reads != 0 {
		t.Error("a result is read before anybody asks")
	}
	secrets.Err = errors.New("connection refused")
	if _, err := get(); err == nil || errors.As(err, new(*resultsecret.Damaged)) {
		t.Errorf("an outage: %v", err)
	}
	secrets.Err, secrets.Reads = nil, 0
	for range 3 {
		if p, err := get(); err != nil || len(p.Get) < len(raw) {
			t.Fatal(err)
		}
	}
	if secrets.Reads != 2 {
		t.Errorf("%d reads of two Secrets", secrets.Reads)
	}

	secrets.Clear()
	payloads.built.remove(version{task: "a", resourceVersion: "5"})
	if _, err := get(); !errors.Is(err, ErrUnknown) {
		t.Errorf("the result of a task that has gone, which the watch does not show yet: %v", err)
	}
	a.stored = map[string]*v1alpha1.McpTask{"a": stored}
	secrets.Reads = 0
	for range 5 {
		if _, err := get(); !errors.As(err, new(*resultsecret.Damaged)) {
			t.Errorf("a Secret that was deleted: %v", err)
		}
	}
	if secrets.Reads != 1 {
		t.Errorf("what is lost is looked for %d times", secrets.Reads)
	}
}

func TestAnswersThatAreKeptReadyAreBoundedByTheirSize(t *testing.T) {
	s := NewStore(nil)
	payloads := NewPayloads(wire.ServerInfo{Name: "s"}, NewResults(s, &server{}, &mcptest.Secrets{}, func() {}))
	result := textResult(strings.Repeat("x", 500_000))
	for i := range 400 {
		if _, err := payloads.Of(t.Context(), done(fmt.Sprint("t", i), "1", result), Tool{}, wire.Elicitation{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(payloads.built.items); payloads.built.size > maxPayloadBytes || n < 40 || n > 80 {
		t.Errorf("%d answers with %d bytes are kept", n, payloads.built.size)
	}
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	if memory.HeapAlloc > 2*maxPayloadBytes {
		t.Errorf("the heap has %d bytes", memory.HeapAlloc)
	}
	runtime.KeepAlive(payloads)
}

// How much the heap grows with each task that is stored with a result of 16 KB.
func BenchmarkHeapOfATaskWithAResult(b *testing.B) {
	heap := func() uint64 {
		var memory runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&memory)
		return memory.HeapAlloc
	}
	const tasks = 10_000
	for b.Loop() {
		before := heap()
		s := NewStore(nil)
		for i := range tasks {
			watch(b, s, done(fmt.Sprint("t", i), fmt.Sprint(i+1), textResult(strings.Repeat("x", 16_000))))
		}
		b.ReportMetric(float64(heap()-before-uint64(s.inline.size))/tasks, "B/task")
		b.ReportMetric(float64(s.inline.size)/(1<<20), "MiB-results")
		runtime.KeepAlive(s)
	}
}
