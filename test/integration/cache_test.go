//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	goruntime "runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers"
)

// number is how many objects a test makes: as many as the variable says, or fewer where it says nothing.
func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q is not a number", variable, text)
	}
	return n
}

// operatorCache is the operator's cache of one namespace, filled.
func operatorCache(t *testing.T, namespace string) cache.Cache {
	t.Helper()
	options := controllers.CacheOptions()
	options.Scheme, options.DefaultNamespaces = scheme, map[string]cache.Config{namespace: {}}
	c, err := cache.New(cfg, options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the cache ended: %v", err)
		}
	})
	for _, kind := range []client.Object{&v1alpha1.McpTask{}, &v1alpha1.McpTool{}, &batchv1.Job{}, &corev1.Pod{}} {
		if _, err := c.GetInformer(t.Context(), kind); err != nil {
			t.Fatal(err)
		}
	}
	if !c.WaitForCacheSync(t.Context()) {
		t.Fatal("the cache does not fill")
	}
	return c
}

// bulky is an environment of 32 KiB.
func bulky() []corev1.EnvVar {
	return []corev1.EnvVar{{Name: "BULK", Value: strings.Repeat("x", 32<<10)}}
}

// The operator remembers nothing of Jobs and Pods that are not its own, and of its own only what it decides from.
func TestWhatIsNotATasksIsNotCached(t *testing.T) {
	ns := newNamespace(t)
	var made []client.Object
	for _, labels := range []map[string]string{nil, {"app": "somebody-elses"}, {v1alpha1.LabelTask: "ours"}} {
		meta := metav1.ObjectMeta{GenerateName: "work-", Namespace: ns, Labels: labels}
		pod := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, SchedulerName: "nobody.mcptask.dev",
			Containers: []corev1.Container{{Name: "work", Image: "example.test/image", Env: bulky()}}}
		suspended := true
		job := &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Suspend: &suspended, Template: corev1.PodTemplateSpec{Spec: pod}}}
		made = append(made, &corev1.Pod{ObjectMeta: meta, Spec: pod}, job)
	}
	for _, o := range made {
		create(t, o)
	}
	c := operatorCache(t, ns)
	var jobs batchv1.JobList
	var pods corev1.PodList
	for list, n := range map[client.ObjectList]func() int{&jobs: func() int { return len(jobs.Items) }, &pods: func() int { return len(pods.Items) }} {
		if err := c.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		if n() != 1 {
			t.Errorf("%d objects in a %T, want 1", n(), list)
		}
	}
	for _, o := range []client.Object{&jobs.Items[0], &pods.Items[0]} {
		if o.GetLabels()[v1alpha1.LabelTask] != "ours" {
			t.Errorf("%T %s is cached, whose labels are %v", o, o.GetName(), o.GetLabels())
		}
		if size := sizeOf(t, o); size > 4<<10 {
			t.Errorf("of a %T %d bytes are kept", o, size)
		}
	}
}

func sizeOf(t *testing.T, o any) int {
	t.Helper()
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return len(raw)
}

// storeEnded stores tasks that have ended, with arguments and results of so many bytes, changed as the test wants.
func storeEnded(t *testing.T, namespace string, n, arguments, result int, change func(i int, task *v1alpha1.McpTask)) {
	t.Helper()
	var next atomic.Int64
	var makers sync.WaitGroup
	for range 8 {
		makers.Go(func() {
			for i := int(next.Add(1)); i <= n && t.Context().Err() == nil; i = int(next.Add(1)) {
				task := newTask(namespace)
				task.Name = v1alpha1.NewTaskID()
				task.Spec.Arguments = &runtime.RawExtension{Raw: []byte(`{"text":"` + strings.Repeat("a", arguments) + `"}`)}
				if err := k8s.Create(t.Context(), task); err != nil {
					t.Error(err)
					return
				}
				now := metav1.Now()
				task.Status = v1alpha1.McpTaskStatus{State: v1alpha1.TaskCompleted, Reason: v1alpha1.ReasonSucceeded, Message: "the tool ended with exit code 0",
					StartedAt: &now, FinishedAt: &now, LastUpdatedAt: &metav1.MicroTime{Time: now.Time}, ExpiresAt: &metav1.Time{Time: now.Add(time.Hour)},
					Result: &v1alpha1.TaskResult{Inline: &runtime.RawExtension{Raw: []byte(`{"content":[{"type":"text","text":"` + strings.Repeat("r", result) + `"}]}`)}, Size: int64(result)}}
				if change != nil {
					change(i, task)
				}
				if err := k8s.Status().Update(t.Context(), task); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	makers.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// heap is the memory in use, in bytes.
func heap() int64 {
	var stats goruntime.MemStats
	for range 3 { // finalizers of one collection free memory for the next
		goruntime.GC()
	}
	goruntime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// heapOf is the memory that something new takes.
func heapOf(something func() any) int64 {
	before := heap()
	made := something()
	took := heap() - before
	goruntime.KeepAlive(made)
	return took
}

// What a stored task costs the operator and the bridge in memory, with arguments of 64 KiB. STORED_TASKS=1000 measures more of them.
func TestMemoryOfStoredTasks(t *testing.T) {
	n := int64(number(t, "STORED_TASKS", 100))
	const arguments, most = 64 << 10, 16 << 10
	for _, result := range []int{0, 16 << 10} {
		t.Run(fmt.Sprintf("with a result of %d bytes", result), func(t *testing.T) {
			empty, full := newNamespace(t), newNamespace(t)
			storeEnded(t, full, int(n), arguments, result, nil)
			operator := (heapOf(func() any { return operatorCache(t, full) }) - heapOf(func() any { return operatorCache(t, empty) })) / n
			bridge := (heapOf(func() any { return runBridge(t, cfg, full) }) - heapOf(func() any { return runBridge(t, cfg, empty) })) / n
			t.Logf("of a task the operator keeps %d bytes, the bridge %d", operator, bridge)
			if operator > most {
				t.Errorf("the operator keeps %d bytes of a task, want at most %d", operator, most)
			}
			if bridge > int64(most+result+result/4) {
				t.Errorf("the bridge keeps %d bytes of a task, want at most %d and its result", bridge, most)
			}
		})
	}
}
