package endpoint

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

const (
	// taskPage is how many tasks one answer of tasks/list holds.
	taskPage = 50
	// cursorLife is how long a client may take from one page to the next.
	cursorLife = 24 * time.Hour
)

// legacyTask is what is said about a task to an older client.
func (e *Endpoint) legacyTask(x *exchange, task *v1alpha1.McpTask) (*wire.LegacyTask, error) {
	payload, err := e.payload(x, task)
	if err != nil {
		return nil, err
	}
	return wire.NewLegacyTask(task, payload.Task), nil
}

// serveLegacyGet answers tasks/get.
func (e *Endpoint) serveLegacyGet(x *exchange) {
	if failure := e.pace(x); failure != nil {
		x.fail(failure)
		return
	}
	shown, err := e.legacyTask(x, x.task)
	if err != nil {
		x.fail(e.unshown(x, err))
		return
	}
	e.polled(x.taskKey(), shown.PollInterval)
	x.reply(e, shown, nil)
}

// serveLegacyCancel stores the request to cancel. The answer shows the task as cancelled at once, and so does every later
// one (2025-11-25, Tasks, Task Cancellation).
func (e *Endpoint) serveLegacyCancel(x *exchange) {
	shown, err := e.legacyTask(x, x.task)
	if err == nil && !shown.Status.Terminal() {
		err = e.cancel(x, x.task, "asked for by tasks/cancel")
		if apierrors.IsNotFound(err) {
			x.fail(wire.UnknownTask())
			return
		}
		if err != nil {
			failure := e.internal(x, err)
			failure.Status = http.StatusServiceUnavailable
			x.fail(failure)
			return
		}
		key := types.NamespacedName{Namespace: x.task.Namespace, Name: x.task.Name}
		task, ok := e.Store.Get(key)
		if !ok {
			x.fail(wire.UnknownTask())
			return
		}
		if shown, err = e.legacyTask(x, task); err == nil && shown.Status == v1alpha1.TaskCancelled {
			x.reply(e, shown, nil)
			return
		}
	}
	if err != nil {
		x.fail(e.unshown(x, err))
		return
	}
	x.fail(wire.InvalidParams(fmt.Sprintf("Cannot cancel task: already in terminal status '%s'", shown.Status)))
}

// taskCursor is where a page of tasks/list begins: after this task.
type taskCursor struct {
	Principal v1alpha1.Identity `json:"principal"`
	Namespace string            `json:"namespace"`
	Created   int64             `json:"created"`
	Name      string            `json:"name"`
}

const sealTasks = "tasks/list"

// serveLegacyList answers tasks/list with the caller's own tasks, the newest first: what is made while a client pages comes
// before the pages that it has yet to see.
func (e *Endpoint) serveLegacyList(x *exchange) {
	after, failure := openCursor[taskCursor](e, x, sealTasks)
	if failure == nil && after != nil && (after.Principal != x.principal.Identity || after.Namespace != x.namespace) {
		failure = invalidCursor()
	}
	if failure == nil {
		failure = e.pace(x)
	}
	if failure != nil {
		x.fail(failure)
		return
	}
	owned := newest(e.Store.Owned(x.namespace, x.principal.Identity), after, taskPage+1)
	var next string
	if len(owned) > taskPage {
		owned = owned[:taskPage]
		last := owned[taskPage-1]
		var err error
		if next, err = e.Keys.Seal(sealTasks, taskCursor{x.principal.Identity, x.namespace, last.CreationTimestamp.Unix(), last.Name}, cursorLife); err != nil {
			x.fail(e.internal(x, err))
			return
		}
	}
	var page []*wire.LegacyTask
	for _, task := range owned {
		// Without the results: nobody reads so many, and they may have to be fetched.
		brief := e.payloads.Brief(task, e.toolOf(task), x.request.Params.Meta.Elicitation)
		page = append(page, wire.NewLegacyTask(task, brief))
	}
	result, err := wire.TaskList(page, next)
	if err != nil {
		x.fail(e.internal(x, err))
		return
	}
	x.result(result)
}

// newest are the n newest of the tasks that come after a place in the list, the newest first; of those made in one second, by name. It
// looks at each task once: a caller may have very many.
func newest(owned []*v1alpha1.McpTask, after *taskCursor, n int) []*v1alpha1.McpTask {
	order := func(created int64, name string, other *v1alpha1.McpTask) int {
		if at := other.CreationTimestamp.Unix(); at != created {
			return cmp.Compare(at, created)
		}
		return strings.Compare(name, other.Name)
	}
	page := make([]*v1alpha1.McpTask, 0, n+1)
	for _, task := range owned {
		created := task.CreationTimestamp.Unix()
		if after != nil && order(after.Created, after.Name, task) >= 0 || len(page) == n && order(created, task.Name, page[n-1]) >= 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(page, task, func(other, task *v1alpha1.McpTask) int {
			return order(other.CreationTimestamp.Unix(), other.Name, task)
		})
		page = slices.Insert(page, at, task)
		page = page[:min(len(page), n)]
	}
	return page
}

// openCursor reads the cursor of a list; nil where there is none.
func openCursor[T any](e *Endpoint, x *exchange, purpose string) (*T, *wire.Error) {
	raw := x.request.Params.Cursor
	if len(raw) == 0 {
		return nil, nil
	}
	cursor := new(T)
	text, ok := wire.Text(raw)
	if !ok || e.Keys.Open(purpose, text, cursor) != nil {
		return nil, invalidCursor()
	}
	return cursor, nil
}

func invalidCursor() *wire.Error {
	return wire.InvalidParams("params.cursor: was not given by this list, or is too old; begin anew without it")
}
