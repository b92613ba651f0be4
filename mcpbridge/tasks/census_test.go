package tasks

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/limits"
)

var counted = v1alpha1.Identity{Issuer: "test", Subject: "alice"}

func taskOf(namespace, name, tool string, owner *v1alpha1.Identity, state v1alpha1.TaskState) *v1alpha1.McpTask {
	task := &v1alpha1.McpTask{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), ResourceVersion: "1"}}
	task.Spec.ToolName, task.Spec.Owner, task.Status.State = tool, owner, state
	return task
}

// countsOf are what alice's call of the tool would be measured by.
func countsOf(t *testing.T, s *Store, tool string) (seen limits.Counts) {
	t.Helper()
	_, refusal := s.Reserve(taskOf("team", "probe", tool, &counted, ""), func(c limits.Counts) *limits.Refusal {
		seen = c
		return &limits.Refusal{}
	})
	if refusal == nil {
		t.Fatal("the probe was counted")
	}
	return seen
}

func TestTasksAreCountedByWhoseTheyAreAndWhetherTheyRun(t *testing.T) {
	s := NewStore(nil)
	bob := &v1alpha1.Identity{Issuer: "test", Subject: "bob"}
	for _, task := range []*v1alpha1.McpTask{
		taskOf("team", "a", "build", &counted, v1alpha1.TaskWorking),
		taskOf("team", "b", "build", &counted, v1alpha1.TaskInputRequired),
		taskOf("team", "c", "test", &counted, v1alpha1.TaskCompleted),
		taskOf("team", "d", "build", bob, ""),
		taskOf("team", "e", "build", nil, v1alpha1.TaskWorking), // nobody's, made with kubectl
		taskOf("other", "f", "build", &counted, v1alpha1.TaskWorking),
	} {
		s.Observe(task)
		s.Observe(task) // once more changes nothing
	}
	if got, want := countsOf(t, s, "build"), (limits.Counts{Stored: 5, StoredOfCaller: 3, RunningOfCaller: 2, RunningOfTool: 4, RunningOfToolByCaller: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	s.Observe(taskOf("team", "a", "build", &counted, v1alpha1.TaskFailed))
	s.Forget(types.NamespacedName{Namespace: "team", Name: "e"})
	if got, want := countsOf(t, s, "build"), (limits.Counts{Stored: 4, StoredOfCaller: 3, RunningOfCaller: 1, RunningOfTool: 2, RunningOfToolByCaller: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		s.Forget(types.NamespacedName{Namespace: "team", Name: name})
	}
	s.Forget(types.NamespacedName{Namespace: "other", Name: "f"})
	if c := s.owners.census; len(c.tasks) != 0 || len(c.sizes) != 0 {
		t.Errorf("of no tasks something is left: %v %v", c.tasks, c.sizes)
	}
}

func TestATaskThatIsBeingMadeIsCountedOnce(t *testing.T) {
	s := NewStore(nil)
	room := func(c limits.Counts) *limits.Refusal {
		if c.Stored >= 1 {
			return &limits.Refusal{}
		}
		return nil
	}
	task := taskOf("team", "a", "build", &counted, "")
	release, refusal := s.Reserve(task, room)
	if refusal != nil {
		t.Fatal("there was room")
	}
	if _, refusal := s.Reserve(taskOf("team", "b", "build", &counted, ""), room); refusal == nil {
		t.Error("the only place was given twice")
	}
	again, refusal := s.Reserve(task, room)
	if refusal != nil {
		t.Fatal("a further try of the same call was refused")
	}
	s.Remember(task)
	release()
	again()
	if got := countsOf(t, s, "build"); got.Stored != 1 {
		t.Errorf("counted %d times", got.Stored)
	}
	s.Forget(types.NamespacedName{Namespace: "team", Name: "a"})
	release, _ = s.Reserve(task, room)
	release() // it was not made
	if got := countsOf(t, s, "build"); got.Stored != 0 {
		t.Errorf("what was not made is counted: %+v", got)
	}
}

func TestTheFirstExpiryIsThatOfAnEndedTask(t *testing.T) {
	s := NewStore(nil)
	at := time.Unix(1_800_000_000, 0)
	expiring := func(name string, state v1alpha1.TaskState, after time.Duration) {
		task := taskOf("team", name, "build", &counted, state)
		task.Status.ExpiresAt = &metav1.Time{Time: at.Add(after)}
		s.Observe(task)
	}
	if first := s.FirstExpiry("team", nil); !first.IsZero() {
		t.Errorf("of no tasks: %s", first)
	}
	expiring("a", v1alpha1.TaskCompleted, time.Minute)
	expiring("b", v1alpha1.TaskFailed, time.Second)
	expiring("c", v1alpha1.TaskWorking, 0) // it may be kept for longer
	if first := s.FirstExpiry("team", &counted); !first.Equal(at.Add(time.Second)) {
		t.Errorf("got %s", first)
	}
	if first := s.FirstExpiry("team", &v1alpha1.Identity{Issuer: "test", Subject: "bob"}); !first.IsZero() {
		t.Errorf("somebody else's: %s", first)
	}
}
