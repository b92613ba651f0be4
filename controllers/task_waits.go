package controllers

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/controllers/decide"
)

// waits is since when this controller has seen the work of a task wait for a Pod that is not there. Another one counts anew.
type waits struct {
	sync.Mutex
	of map[types.NamespacedName]wait
}

type wait struct {
	what  string
	since time.Time
}

// see notes what the work waits for now (decide.Awaits) and says since when it does; zero where it waits for nothing.
func (w *waits) see(task types.NamespacedName, in *decide.Input) time.Time {
	what := decide.Awaits(in)
	w.Lock()
	defer w.Unlock()
	if what == "" {
		delete(w.of, task)
		return time.Time{}
	}
	if w.of == nil {
		w.of = map[types.NamespacedName]wait{}
	}
	if w.of[task].what != what {
		w.of[task] = wait{what, in.Now}
	}
	return w.of[task].since
}

func (w *waits) forget(task types.NamespacedName) {
	w.Lock()
	defer w.Unlock()
	delete(w.of, task)
}
