package tasks

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/limits"
)

// census counts the tasks that this replica knows, and those that it is about to make. Another replica's are counted once the
// watch shows them: together they may exceed a limit by what is being made at one moment.
type census struct {
	mu    sync.Mutex
	tasks map[types.NamespacedName]entry
	sizes map[group]int64
}

// entry is what counts of a task.
type entry struct {
	owner v1alpha1.Identity // the zero value when it has none
	tool  string
	ended bool
	// expires is when an ended task may be deleted, in seconds since 1970; 0 when that is not known.
	expires int64
	// stored says that it was seen, making how many calls are about to make it.
	stored bool
	making int
}

// group is some of the tasks of a namespace. A field that is not set leaves it open.
type group struct {
	namespace, tool string
	owner           v1alpha1.Identity
	running         bool
}

func newCensus() *census {
	return &census{tasks: map[types.NamespacedName]entry{}, sizes: map[group]int64{}}
}

// groups are those that a task counts in.
func (e entry) groups(namespace string) []group {
	in := make([]group, 0, 5)
	in = append(in, group{namespace: namespace})
	owned := e.owner != v1alpha1.Identity{}
	if owned {
		in = append(in, group{namespace: namespace, owner: e.owner})
	}
	if e.ended {
		return in
	}
	in = append(in, group{namespace: namespace, tool: e.tool, running: true})
	if owned {
		in = append(in, group{namespace: namespace, owner: e.owner, running: true}, group{namespace: namespace, owner: e.owner, tool: e.tool, running: true})
	}
	return in
}

// set puts an entry in the place of what was there; nil takes it away.
func (c *census) set(key types.NamespacedName, now *entry) {
	before, known := c.tasks[key]
	if known && now != nil && before == *now {
		return
	}
	if known {
		for _, g := range before.groups(key.Namespace) {
			if c.sizes[g]--; c.sizes[g] == 0 {
				delete(c.sizes, g)
			}
		}
	}
	if now == nil {
		delete(c.tasks, key)
		return
	}
	for _, g := range now.groups(key.Namespace) {
		c.sizes[g]++
	}
	c.tasks[key] = *now
}

func entryOf(task *v1alpha1.McpTask) entry {
	e := entry{tool: task.Spec.ToolName, ended: task.Status.State.Terminal()}
	if task.Spec.Owner != nil {
		e.owner = *task.Spec.Owner
	}
	if at := task.Status.ExpiresAt; at != nil && e.ended {
		e.expires = at.Unix()
	}
	return e
}

// note counts a task that was seen.
func (c *census) note(task *v1alpha1.McpTask) {
	key := types.NamespacedName{Namespace: task.Namespace, Name: task.Name}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := entryOf(task)
	now.stored, now.making = true, c.tasks[key].making
	c.set(key, &now)
}

// forget drops a task that is gone.
func (c *census) forget(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, known := c.tasks[key]
	switch {
	case !known:
	case before.making > 0:
		before.stored = false
		c.set(key, &before)
	default:
		c.set(key, nil)
	}
}

// reserve counts a task that is about to be made, unless check refuses it.
func (c *census) reserve(task *v1alpha1.McpTask, check func(limits.Counts) *limits.Refusal) (release func(), refusal *limits.Refusal) {
	key := types.NamespacedName{Namespace: task.Namespace, Name: task.Name}
	c.mu.Lock()
	defer c.mu.Unlock()
	now, known := c.tasks[key]
	if !known {
		now = entryOf(task)
		if refusal := check(c.counts(task.Namespace, now)); refusal != nil {
			return nil, refusal
		}
	}
	now.making++
	c.set(key, &now)
	return func() { c.release(key) }, nil
}

func (c *census) release(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, known := c.tasks[key]
	if !known {
		return
	}
	if now.making--; now.making == 0 && !now.stored {
		c.set(key, nil)
		return
	}
	c.set(key, &now)
}

func (c *census) counts(namespace string, e entry) limits.Counts {
	return limits.Counts{
		Stored:                c.sizes[group{namespace: namespace}],
		StoredOfCaller:        c.sizes[group{namespace: namespace, owner: e.owner}],
		RunningOfCaller:       c.sizes[group{namespace: namespace, owner: e.owner, running: true}],
		RunningOfTool:         c.sizes[group{namespace: namespace, tool: e.tool, running: true}],
		RunningOfToolByCaller: c.sizes[group{namespace: namespace, owner: e.owner, tool: e.tool, running: true}],
	}
}

// Reserve counts a task that is about to be made, unless check refuses it for what there is besides. A task that is known, or is
// being made, already is counted once and not refused: its caller tries again. release must be called once the task is
// remembered, or was not made.
func (s *Store) Reserve(task *v1alpha1.McpTask, check func(limits.Counts) *limits.Refusal) (release func(), refusal *limits.Refusal) {
	return s.owners.census.reserve(task, check)
}

// FirstExpiry is when the first of the ended tasks of a namespace, or of one owner in it, may be deleted; the zero time when none
// may.
func (s *Store) FirstExpiry(namespace string, owner *v1alpha1.Identity) time.Time {
	c := s.owners.census
	c.mu.Lock()
	defer c.mu.Unlock()
	var first int64
	for key, e := range c.tasks {
		if key.Namespace == namespace && (owner == nil || e.owner == *owner) && e.expires > 0 && (first == 0 || e.expires < first) {
			first = e.expires
		}
	}
	if first == 0 {
		return time.Time{}
	}
	return time.Unix(first, 0)
}
