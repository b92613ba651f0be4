package tasks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

func task(name, version string) *v1alpha1.McpTask {
	t := &v1alpha1.McpTask{}
	t.Namespace, t.Name, t.UID, t.ResourceVersion = "team", name, types.UID(name), version
	return t
}

func key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "team", Name: name}
}

func TestTheNewestWordCounts(t *testing.T) {
	for name, tc := range map[string]struct {
		happens func(*Store)
		want    string
	}{
		"nothing":                          {func(s *Store) {}, ""},
		"the watch":                        {func(s *Store) { s.Observe(task("a", "5")) }, "5"},
		"a write before the watch":         {func(s *Store) { s.Remember(task("a", "5")) }, "5"},
		"a write after the watch":          {func(s *Store) { s.Observe(task("a", "5")); s.Remember(task("a", "7")) }, "7"},
		"a late live read":                 {func(s *Store) { s.Observe(task("a", "10")); s.Remember(task("a", "9")) }, "10"},
		"a later live read of the past":    {func(s *Store) { s.Remember(task("a", "10")); s.Remember(task("a", "9")) }, "10"},
		"a watch that lags behind":         {func(s *Store) { s.Remember(task("a", "10")); s.Observe(task("a", "9")) }, "10"},
		"a watch that has caught up":       {func(s *Store) { s.Remember(task("a", "9")); s.Observe(task("a", "9")); s.Observe(task("a", "11")) }, "11"},
		"a deletion":                       {func(s *Store) { s.Observe(task("a", "9")); s.Remember(task("a", "10")); s.Forget(key("a")) }, ""},
		"versions that are no numbers":     {func(s *Store) { s.Observe(task("a", "x")); s.Remember(task("a", "y")) }, "x"},
		"another task":                     {func(s *Store) { s.Observe(task("b", "9")) }, ""},
		"the same name, another namespace": {func(s *Store) { other := task("a", "9"); other.Namespace = "x"; s.Observe(other) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewStore(nil)
			tc.happens(s)
			got, ok := s.Get(key("a"))
			if ok != (tc.want != "") || ok && got.ResourceVersion != tc.want {
				t.Errorf("got %+v, want %q", got, tc.want)
			}
		})
	}
}

func TestWhatTheWatchNeverShowsIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lag time.Duration
		s := NewStore(func(d time.Duration) { lag = d })
		s.Remember(task("a", "5"))
		s.Remember(task("b", "6"))
		time.Sleep(time.Second)
		s.Observe(task("b", "6")) // the watch is past a
		if lag != time.Second {
			t.Errorf("the lag is said to be %s", lag)
		}
		s.Remember(task("d", "4")) // and was past d before
		time.Sleep(settled - time.Second)
		for _, name := range []string{"a", "b", "d"} {
			if _, ok := s.Get(key(name)); !ok {
				t.Errorf("%s is forgotten although a new list may not have got to it", name)
			}
		}
		time.Sleep(time.Second)
		for name, want := range map[string]bool{"a": false, "b": true, "d": false} {
			if _, ok := s.Get(key(name)); ok != want {
				t.Errorf("%s is believed in: %v", name, ok)
			}
		}
		s.Remember(task("c", "7"))
		if len(s.ahead) != 1 {
			t.Errorf("%d tasks are kept", len(s.ahead))
		}
	})
}

// A watch that shows nothing is broken, not ahead: what this replica has said itself stands until the watch is mended.
func TestWhatWasSaidStandsWhileTheWatchIsBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(nil)
		s.Observe(task("a", "5"))
		s.Remember(task("a", "7"))
		elsewhere := task("x", "9")
		elsewhere.Namespace = "elsewhere" // which may have a watch of its own
		s.Observe(elsewhere)
		s.Observe(task("b", "6"))
		time.Sleep(longest - time.Second)
		if got, _ := s.Get(key("a")); got.ResourceVersion != "7" {
			t.Errorf("the replica goes back to version %s", got.ResourceVersion)
		}
		time.Sleep(time.Second)
		if got, _ := s.Get(key("a")); got.ResourceVersion != "5" {
			t.Errorf("version %s is kept for ever", got.ResourceVersion)
		}
	})
}

func TestNothingIsKeptThatIsNotRead(t *testing.T) {
	full := task("a", "5")
	full.Spec.Arguments = &runtime.RawExtension{Raw: []byte(`{"secret":1}`)}
	full.Status.Runtime = []v1alpha1.RuntimeReport{{PodUID: "p"}, {PodUID: "q", Sequence: 3, StateName: "done",
		Result: &v1alpha1.TaskResult{Inline: &runtime.RawExtension{Raw: []byte(`{"content":[]}`)}, Size: 14, SHA256: "abc"}}}
	s := NewStore(nil)
	s.Remember(full)
	got, _ := s.Get(key("a"))
	if got.Spec.Arguments != nil {
		t.Error("the arguments are kept")
	}
	if report := got.Status.Runtime[1]; report.Result.Inline != nil || report.Result.SHA256 != "abc" || report.Result.Size != 14 || report.Sequence != 3 || report.StateName != "done" {
		t.Errorf("of a Pod's report %+v is kept with the result %+v", report, report.Result)
	}
	if other, err := s.Strip("no task"); other != "no task" || err != nil {
		t.Errorf("got %v, %v", other, err)
	}
}

func TestChangesWakeThoseWhoWait(t *testing.T) {
	s := NewStore(nil)
	changed, stop := s.Subscribe(key("a"))
	other, stopOther := s.Subscribe(key("b"))
	defer stopOther()
	for version := range 5 {
		s.Observe(task("a", fmt.Sprint(version+1)))
	}
	select {
	case <-changed:
	default:
		t.Fatal("no change is told")
	}
	select {
	case <-changed:
		t.Error("changes that nobody looked at are told one by one")
	case <-other:
		t.Error("the change of one task is told as another's")
	default:
	}
	s.Forget(key("a"))
	if len(changed) != 1 {
		t.Error("the deletion is not told")
	}
	stop()
	if len(s.hub.watches) != 1 {
		t.Errorf("%d tasks are watched", len(s.hub.watches))
	}
}

func TestAWatchTellsEachChangedTaskOnce(t *testing.T) {
	s := NewStore(nil)
	w := s.Watch(key("b"), key("a"), key("c"))
	taken := func(want ...types.NamespacedName) {
		t.Helper()
		select {
		case <-w.Changed():
		default:
			t.Error("no change is told")
		}
		if got := w.Take(); !slices.Equal(got, want) {
			t.Errorf("changed are %v, not %v", got, want)
		}
	}
	taken(key("b"), key("a"), key("c")) // nobody has looked at them yet
	for version := range 5 {
		s.Observe(task("c", fmt.Sprint(version+1)))
		s.Observe(task("a", fmt.Sprint(version+1)))
		s.Observe(task("other", fmt.Sprint(version+1)))
	}
	taken(key("c"), key("a"))
	s.Forget(key("b"))
	taken(key("b"))
	w.Stop()
	s.Observe(task("a", "9"))
	if got := w.Take(); len(got) != 0 || len(s.hub.watches) != 0 {
		t.Errorf("after its end the watch tells of %v", got)
	}
}

// server is an API server that counts and can be slow or down.
type server struct {
	API
	stored map[string]*v1alpha1.McpTask
	err    error
	slow   chan struct{}
	reads  atomic.Int64
}

func (a *server) Get(_ context.Context, key types.NamespacedName) (*v1alpha1.McpTask, error) {
	a.reads.Add(1)
	if a.slow != nil {
		<-a.slow
	}
	if a.err != nil {
		return nil, a.err
	}
	if found, ok := a.stored[key.Name]; ok {
		return found.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "mcptasks"}, key.Name)
}

func newFinder(a *server) (*Finder, *Store) {
	s := NewStore(nil)
	return NewFinder(s, a, func() {}), s
}

func TestACachedTaskCostsNoRequest(t *testing.T) {
	a := &server{}
	finder, store := newFinder(a)
	id := v1alpha1.NewTaskID()
	store.Observe(task(id, "1"))
	for range 100 {
		if _, err := finder.Find(t.Context(), key(id), "me"); err != nil {
			t.Fatal(err)
		}
	}
	if a.reads.Load() != 0 {
		t.Errorf("%d live reads", a.reads.Load())
	}
}

func TestAMissIsSettledByOneLiveRead(t *testing.T) {
	id := v1alpha1.NewTaskID()
	a := &server{stored: map[string]*v1alpha1.McpTask{id: task(id, "1")}, slow: make(chan struct{})}
	finder, _ := newFinder(a)
	var waiting sync.WaitGroup
	for range 20 {
		waiting.Go(func() {
			if found, err := finder.Find(t.Context(), key(id), "me"); err != nil || found.Name != id {
				t.Errorf("got %v, %v", found, err)
			}
		})
	}
	close(a.slow)
	waiting.Wait()
	for range 20 { // it is remembered until the watch shows it
		if _, err := finder.Find(t.Context(), key(id), "me"); err != nil {
			t.Error(err)
		}
	}
	if reads := a.reads.Load(); reads != 1 {
		t.Errorf("%d live reads", reads)
	}
}

func TestUnknownIDsCostLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &server{}
		finder, store := newFinder(a)
		for _, id := range []string{"", "x", "../../etc", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", v1alpha1.NewTaskID() + "a"} {
			if _, err := finder.Find(t.Context(), key(id), "me"); !errors.Is(err, ErrUnknown) {
				t.Errorf("%q: got %v", id, err)
			}
		}
		if a.reads.Load() != 0 {
			t.Error("an id that no task can have was looked up")
		}
		id := v1alpha1.NewTaskID()
		for range 10 {
			if _, err := finder.Find(t.Context(), key(id), "me"); !errors.Is(err, ErrUnknown) {
				t.Errorf("got %v", err)
			}
		}
		if a.reads.Load() != 1 {
			t.Errorf("%d live reads of one missing task", a.reads.Load())
		}
		store.Observe(task(id, "1"))
		if _, err := finder.Find(t.Context(), key(id), "me"); err != nil {
			t.Errorf("a task that has appeared since is not found: %v", err)
		}

		limited := 0
		for range 500 {
			if _, err := finder.Find(t.Context(), key(v1alpha1.NewTaskID()), "me"); errors.Is(err, ErrTooMany) {
				limited++
			}
		}
		if reads := a.reads.Load(); reads > LookupBurst+1 || limited < 400 {
			t.Errorf("a flood of random ids made %d live reads; %d were refused", reads, limited)
		}
		if _, err := finder.Find(t.Context(), key(v1alpha1.NewTaskID()), "another"); !errors.Is(err, ErrUnknown) {
			t.Errorf("one caller's flood stops another: %v", err)
		}
		time.Sleep(time.Second)
		if _, err := finder.Find(t.Context(), key(v1alpha1.NewTaskID()), "me"); !errors.Is(err, ErrUnknown) {
			t.Errorf("a second later: %v", err)
		}
	})
}

func TestAnOutageIsNotAnUnknownTask(t *testing.T) {
	a := &server{err: errors.New("connection refused")}
	finder, _ := newFinder(a)
	id := v1alpha1.NewTaskID()
	if _, err := finder.Find(t.Context(), key(id), "me"); err == nil || errors.Is(err, ErrUnknown) {
		t.Errorf("got %v", err)
	}
	a.err, a.stored = nil, map[string]*v1alpha1.McpTask{id: task(id, "1")}
	if _, err := finder.Find(t.Context(), key(id), "me"); err != nil {
		t.Errorf("after the outage: %v", err)
	}
}

func TestPayloadsAreBuiltOncePerChange(t *testing.T) {
	payloads := NewPayloads(wire.ServerInfo{Name: "s"}, nil)
	of := func(version string, tool Tool) *Payload {
		p, err := payloads.Of(t.Context(), task("a", version), tool, wire.Elicitation{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := of("1", Tool{})
	if of("1", Tool{}) != first {
		t.Error("the same state is built again")
	}
	if of("2", Tool{}) == first {
		t.Error("a new state is not built")
	}
	if of("1", Tool{UID: "t", Generation: 2}) == first {
		t.Error("another generation of the tool is not built")
	}
}
