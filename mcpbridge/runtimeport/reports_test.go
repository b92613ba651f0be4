package runtimeport

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/report"
	"github.com/mcptask/mcptask/api/v1alpha1"
)

func put(t testing.TB, p *Port, key types.NamespacedName, pod, body string) got {
	return call(t, p, http.MethodPut, reportPath(key), "token-"+pod, body)
}

func progressOf(sequence int) string {
	return fmt.Sprintf(`{"sequence":%d,"progress":{"current":"%d"}}`, sequence, sequence)
}

const question = `{"key":"k-1","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`

// expect says what a report got.
func expect(t *testing.T, g got, status int, sequence int64) {
	t.Helper()
	if g.status != status || g.decoded.Sequence != sequence {
		t.Errorf("HTTP %d with %s, want %d with %d", g.status, g.body, status, sequence)
	}
}

func TestAReportIsStored(t *testing.T) {
	c := newCluster()
	key := c.newTask("team", "pod", "other-pod")
	p := newPort(c, &bytes.Buffer{})
	expect(t, put(t, p, key, "other-pod", `{"sequence":3,"outcome":"cancelled"}`), 200, 3)
	expect(t, put(t, p, key, "pod", `{"sequence":1,"stateName":"s","inputRequests":[`+question+`],"outcome":"result","result":{"content":[]}}`), 200, 1)
	runtime := c.stored(key).Status.Runtime
	if len(runtime) != 2 || runtime[0].PodUID != "other-pod" || runtime[0].Outcome != "cancelled" {
		t.Fatalf("stored is %+v", runtime)
	}
	if r := runtime[1]; r.PodUID != "pod" || r.StateName != "s" || len(r.InputRequests) != 1 || string(r.Result.Inline.Raw) != `{"content":[]}` || r.ReportedAt == nil {
		t.Errorf("stored is %+v", r)
	}
}

func TestWhatIsOldOrUnchangedIsNotWritten(t *testing.T) {
	c := newCluster()
	key := c.newTask("team", "pod")
	p := newPort(c, &bytes.Buffer{})
	body := func(sequence int) string {
		return fmt.Sprintf(`{"sequence":%d,"inputRequests":[%s],"outcome":"result","result":{"content":[]}}`, sequence, question)
	}
	expect(t, put(t, p, key, "pod", body(5)), 200, 5)
	expect(t, put(t, p, key, "pod", body(5)), 200, 5)
	expect(t, put(t, p, key, "pod", progressOf(4)), 200, 5)
	expect(t, put(t, p, key, "pod", body(6)), 200, 6)
	expect(t, put(t, p, key, "pod", body(7)), 200, 7)
	if writes := c.written(); len(writes) != 1 || c.reads != 0 {
		t.Errorf("%d writes and %d reads", len(writes), c.reads)
	}
	for outcome, want := range map[string]float64{written: 1, stale: 2, unchanged: 2} {
		if n := counted(t, p, "reports_total", outcome); n != want {
			t.Errorf("%v reports are said to be %s", n, outcome)
		}
	}
	if n := counted(t, p, "writes_total"); n != 1 {
		t.Errorf("%v writes are counted", n)
	}
}

func TestALateReportDoesNotStandForTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		key := c.newTask("team", "pod")
		one, two := newPort(c, &bytes.Buffer{}), newPort(c, &bytes.Buffer{})
		expect(t, put(t, one, key, "pod", `{"sequence":7,"stateName":"x"}`), 200, 7)
		// Number 8 said something else and is on its way through another replica; number 9 takes it back.
		expect(t, put(t, two, key, "pod", `{"sequence":9,"stateName":"x"}`), 200, 9)
		expect(t, put(t, one, key, "pod", `{"sequence":8,"stateName":"y","outcome":"cancelled"}`), 200, 9)
		if r := c.stored(key).Status.Runtime[0]; r.Sequence != 9 || r.StateName != "x" || r.Outcome != "" {
			t.Errorf("stored is %+v", r)
		}
	})
}

func TestProgressIsWrittenOnceInTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		key := c.newTask("team", "pod", "other-pod")
		other := c.newTask("team", "pod")
		p := newPort(c, &bytes.Buffer{})
		c.tokens["token-elsewhere"] = token{audience: Audience(c.stored(other)), user: "system:serviceaccount:team:default", pod: "pod"}
		c.tokens["token-pod"] = token{audience: Audience(c.stored(key)), user: "system:serviceaccount:team:default", pod: "pod"}
		start := time.Now()
		expect(t, put(t, p, key, "pod", progressOf(1)), 200, 1)
		if time.Since(start) != 0 {
			t.Errorf("the first waited %s", time.Since(start))
		}
		var waiting sync.WaitGroup
		for i := range 9 {
			waiting.Go(func() { expect(t, put(t, p, key, "pod", progressOf(i+2)), 200, 10) })
			synctest.Wait()
			time.Sleep(100 * time.Millisecond)
		}
		waiting.Go(func() { expect(t, put(t, p, key, "other-pod", progressOf(1)), 200, 1) })
		waiting.Go(func() { expect(t, put(t, p, other, "elsewhere", progressOf(1)), 200, 1) })
		waiting.Wait()
		if took := time.Since(start); took != every {
			t.Errorf("the newest was stored after %s", took)
		}
		writes := c.written()
		if len(writes) != 3 || writes[2].sequences["pod"] != 10 || writes[2].sequences["other-pod"] != 1 || writes[2].at.Sub(start) != every {
			t.Errorf("written was %+v", writes)
		}
		time.Sleep(every)
		synctest.Wait()
		before := time.Now()
		expect(t, put(t, p, key, "pod", progressOf(11)), 200, 11)
		if waited := time.Since(before); waited != 0 {
			t.Errorf("after a while it waits %s again", waited)
		}
	})
}

func TestWhatMattersIsWrittenAtOnceWithWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		key := c.newTask("team", "pod", "other-pod")
		p := newPort(c, &bytes.Buffer{})
		start := time.Now()
		expect(t, put(t, p, key, "pod", progressOf(1)), 200, 1)
		var waiting sync.WaitGroup
		waiting.Go(func() { expect(t, put(t, p, key, "other-pod", progressOf(1)), 200, 1) })
		waiting.Go(func() { expect(t, put(t, p, key, "pod", progressOf(2)), 200, 3) })
		synctest.Wait()
		time.Sleep(time.Second)
		expect(t, put(t, p, key, "pod", `{"sequence":3,"inputRequests":[`+question+`]}`), 200, 3)
		waiting.Wait()
		if took := time.Since(start); took != time.Second || len(c.written()) != 2 {
			t.Errorf("after %s, written was %+v", took, c.written())
		}
		expect(t, put(t, p, key, "pod", `{"sequence":4,"inputRequests":[`+question+`],"outcome":"cancelled"}`), 200, 4)
		if took := time.Since(start); took != time.Second {
			t.Errorf("the outcome was written after %s", took)
		}
	})
}

func TestAReportOutlivesItsSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		key := c.newTask("team", "pod")
		p := newPort(c, &bytes.Buffer{})
		expect(t, put(t, p, key, "pod", progressOf(1)), 200, 1)
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		callWith(t, ctx, p, http.MethodPut, reportPath(key), "token-pod", progressOf(2))
		if n := len(c.written()); n != 1 {
			t.Errorf("%d writes when it has left", n)
		}
		time.Sleep(every)
		synctest.Wait()
		if r := c.stored(key).Status.Runtime[0]; r.Sequence != 2 {
			t.Errorf("stored is %+v", r)
		}
	})
}

func TestTheEndOfTheBridgeWritesWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		key := c.newTask("team", "pod")
		p := newPort(c, &bytes.Buffer{})
		expect(t, put(t, p, key, "pod", progressOf(1)), 200, 1)
		start := time.Now()
		var waiting sync.WaitGroup
		waiting.Go(func() { expect(t, put(t, p, key, "pod", progressOf(2)), 200, 2) })
		synctest.Wait()
		p.Drain()
		waiting.Wait()
		if err := p.Wait(t.Context()); err != nil || time.Since(start) != 0 {
			t.Errorf("%v, after %s", err, time.Since(start))
		}
		expect(t, put(t, p, key, "pod", progressOf(3)), 200, 3)
		if time.Since(start) != 0 {
			t.Errorf("what comes later waits %s", time.Since(start))
		}
	})
}

func TestATaskThatEndsMeanwhileTakesNoReport(t *testing.T) {
	c := newCluster()
	key := c.newTask("team", "pod")
	p := newPort(c, &bytes.Buffer{})
	c.lagging = true
	c.change(key, func(task *v1alpha1.McpTask) { task.Status.State = v1alpha1.TaskFailed })
	expect(t, put(t, p, key, "pod", progressOf(1)), 410, 0)
	c.mu.Lock()
	delete(c.tasks, key)
	c.mu.Unlock()
	gone := c.newTask("team", "pod")
	c.lagging = false
	c.change(gone, func(*v1alpha1.McpTask) {})
	c.lagging = true
	c.change(gone, func(task *v1alpha1.McpTask) { task.UID = "another task of that name" })
	expect(t, put(t, p, gone, "pod", progressOf(1)), 404, 0)
	c.mu.Lock()
	delete(c.tasks, gone)
	c.mu.Unlock()
	expect(t, put(t, p, gone, "pod", progressOf(2)), 404, 0)
}

func TestWhatIsWrongWithAReportIsSaid(t *testing.T) {
	c := newCluster()
	key := c.newTask("team", "pod", "other-pod")
	p := newPort(c, &bytes.Buffer{})
	for body, want := range map[string]struct {
		status int
		words  string
	}{
		`{}`:                              {422, "sequence: must be a whole number from 1 on"},
		`{"sequence":1,"outcome":"done"}`: {422, "outcome: must be result, failed or cancelled"},
		``:                                {422, "report: is not JSON: unexpected end of JSON input"},
		`{"sequence":1,"stateName":"` + strings.Repeat("x", report.MaxBytes) + `"}`: {413, "the report is larger than 512 KiB"},
	} {
		if g := put(t, p, key, "pod", body); g.status != want.status || g.words != want.words {
			t.Errorf("%.100s: HTTP %d with %s", body, g.status, g.body)
		}
	}

	var many []string
	for i := range 65 {
		many = append(many, strings.Replace(question, "k-1", fmt.Sprint("k-", i), 1))
	}
	tooMany := `{"sequence":1,"inputRequests":[` + strings.Join(many, ",") + `]}`
	if g := put(t, p, key, "pod", tooMany); g.status != 422 || !strings.HasPrefix(g.words, "inputRequests: 65 questions have no answer") {
		t.Errorf("HTTP %d with %s", g.status, g.body)
	}
	c.change(key, func(task *v1alpha1.McpTask) {
		task.Status.Runtime = []v1alpha1.RuntimeReport{questionOf("other-pod", 511<<10)}
	})
	if g := put(t, p, key, "pod", `{"sequence":1,"inputRequests":[`+question+`],"stateName":"`+strings.Repeat("x", 60)+`","progress":{"current":"1","message":"`+strings.Repeat("x", 1000)+`"}}`); g.status != 413 {
		t.Errorf("HTTP %d with %s", g.status, g.body)
	}
}

func TestOnePodsFaultIsNotTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		key := c.newTask("team", "pod", "other-pod")
		p := newPort(c, &bytes.Buffer{})
		c.fail = func(reports []v1alpha1.RuntimeReport) error {
			for _, r := range reports {
				if r.StateName == "bad" {
					return apierrors.NewInvalid(schema.GroupKind{Group: "mcptask.dev", Kind: "McpTask"}, key.Name, nil)
				}
			}
			return nil
		}
		expect(t, put(t, p, key, "pod", progressOf(1)), 200, 1)
		var waiting sync.WaitGroup
		waiting.Go(func() { expect(t, put(t, p, key, "other-pod", progressOf(1)), 200, 1) })
		waiting.Go(func() {
			if g := put(t, p, key, "pod", `{"sequence":2,"stateName":"bad"}`); g.status != 422 || !strings.HasPrefix(g.words, "report: ") {
				t.Errorf("HTTP %d with %s", g.status, g.body)
			}
		})
		waiting.Wait()
		if writes := c.written(); len(writes) != 2 {
			t.Errorf("written was %+v", writes)
		}
	})
}
