package limits

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/ptr"
)

func TestTheFirstLimitThatIsReachedIsNamed(t *testing.T) {
	l := Limits{StoredTasksPerNamespace: 100, StoredTasksPerCaller: 50, RunningTasksPerCaller: 10, CallsPerMinute: 1, PollsPerSecond: 1}
	bounded := Tool{RunningTasks: ptr.To[int64](5), RunningTasksPerCaller: ptr.To[int64](3), PollInterval: 7 * time.Second}
	for name, tc := range map[string]struct {
		counts Counts
		tool   Tool
		limit  string
		value  int64
		wait   time.Duration
	}{
		"nothing yet":                      {Counts{}, bounded, "", 0, 0},
		"one below each":                   {Counts{99, 49, 9, 4, 2}, bounded, "", 0, 0},
		"a tool without bounds":            {Counts{99, 49, 9, 1000, 9}, Tool{}, "", 0, 0},
		"running tasks of the caller":      {Counts{99, 49, 10, 4, 2}, bounded, RunningTasksPerCaller, 10, 7 * time.Second},
		"of the tool":                      {Counts{99, 49, 9, 5, 2}, bounded, ToolRunningTasks, 5, 7 * time.Second},
		"of the tool, for the caller":      {Counts{99, 49, 9, 4, 3}, bounded, ToolRunningTasksPerCaller, 3, 7 * time.Second},
		"stored tasks of the caller":       {Counts{99, 50, 9, 4, 2}, bounded, StoredTasksPerCaller, 50, 0},
		"stored tasks of the namespace":    {Counts{100, 49, 9, 4, 2}, bounded, StoredTasksPerNamespace, 100, 0},
		"more than the limit":              {Counts{120, 49, 9, 4, 2}, bounded, StoredTasksPerNamespace, 100, 0},
		"a tool that is polled all day":    {Counts{RunningOfCaller: 10}, Tool{PollInterval: time.Millisecond}, RunningTasksPerCaller, 10, time.Second},
		"what the caller can do about it":  {Counts{100, 50, 10, 5, 3}, bounded, RunningTasksPerCaller, 10, 7 * time.Second},
		"its own tasks before the others'": {Counts{100, 50, 9, 5, 3}, bounded, ToolRunningTasksPerCaller, 3, 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			r := l.Check(tc.counts, tc.tool)
			if tc.limit == "" {
				if r != nil {
					t.Errorf("refused: %+v", r)
				}
				return
			}
			if r == nil || r.Limit != tc.limit || r.Value != tc.value || r.RetryAfter != tc.wait || r.Words == "" {
				t.Errorf("got %+v, want %s %d %s", r, tc.limit, tc.value, tc.wait)
			}
		})
	}
}

func TestLimitsThatCannotBeAreNamed(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
	for flag, change := range map[string]func(*Limits){
		"--max-stored-tasks-per-namespace": func(l *Limits) { l.StoredTasksPerNamespace = 0 },
		"--max-stored-tasks-per-caller":    func(l *Limits) { l.StoredTasksPerCaller = l.StoredTasksPerNamespace + 1 },
		"--max-running-tasks-per-caller":   func(l *Limits) { l.RunningTasksPerCaller = -1 },
		"--max-calls-per-minute":           func(l *Limits) { l.CallsPerMinute = 0 },
		"--max-polls-per-second":           func(l *Limits) { l.PollsPerSecond = most + 1 },
	} {
		l := Default()
		change(&l)
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("got %v, want it to name %s", err, flag)
		}
	}
}

func TestABucketSaysWhenThereIsMore(t *testing.T) {
	b := NewBuckets[string](0.1, 2)
	for range 2 {
		if wait := b.Take("a"); wait != 0 {
			t.Fatalf("of two tokens one is %s away", wait)
		}
	}
	if !b.Empty("a") || b.Empty("b") {
		t.Error("each key has a bucket of its own")
	}
	for range 3 { // a refused try costs nothing
		if wait := b.Take("a"); wait < 9*time.Second || wait > 10*time.Second {
			t.Errorf("the next token is %s away", wait)
		}
	}
}

// However many ask at once, a bucket gives what it holds and what time brings, and no more.
func TestABucketGivesNoMoreToManyAtOnce(t *testing.T) {
	const perSecond, burst = 1000, 10
	buckets := NewBuckets[string](perSecond, burst)
	var taken atomic.Int64
	began := time.Now()
	var takers sync.WaitGroup
	for range 16 {
		takers.Go(func() {
			for time.Since(began) < 300*time.Millisecond {
				if buckets.Take("caller") == 0 {
					taken.Add(1)
				}
			}
		})
	}
	takers.Wait()
	if most := burst + int64(perSecond*time.Since(began).Seconds()) + 1; taken.Load() > most {
		t.Errorf("%d tokens were taken of %d", taken.Load(), most)
	}
}
