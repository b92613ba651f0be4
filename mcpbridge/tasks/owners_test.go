package tasks

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

func owned(name, version, subject string) *v1alpha1.McpTask {
	task := &v1alpha1.McpTask{}
	task.Namespace, task.Name, task.ResourceVersion = "team", name, version
	if subject != "" {
		task.Spec.Owner = &v1alpha1.Identity{Issuer: "test", Subject: subject}
	}
	return task
}

func (s *Store) namesOf(namespace, subject string) []string {
	var names []string
	for _, task := range s.Owned(namespace, v1alpha1.Identity{Issuer: "test", Subject: subject}) {
		names = append(names, task.Name)
	}
	slices.Sort(names)
	return names
}

func TestTasksAreKnownByTheirOwner(t *testing.T) {
	s := NewStore(nil)
	s.Observe(owned("a", "1", "ann"))
	s.Remember(owned("b", "2", "ann")) // not shown by the watch yet
	s.Observe(owned("c", "3", "bob"))
	s.Observe(owned("d", "4", ""))
	if got := s.namesOf("team", "ann"); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("ann has %v", got)
	}
	if got := s.namesOf("other", "ann"); len(got) != 0 {
		t.Errorf("in another namespace ann has %v", got)
	}
	s.Observe(owned("a", "5", "bob")) // deleted, and made anew
	s.Forget(types.NamespacedName{Namespace: "team", Name: "b"})
	if ann, bob := s.namesOf("team", "ann"), s.namesOf("team", "bob"); len(ann) != 0 || !slices.Equal(bob, []string{"a", "c"}) {
		t.Errorf("ann has %v, bob %v", ann, bob)
	}
	s.Forget(types.NamespacedName{Namespace: "team", Name: "a"})
	s.Forget(types.NamespacedName{Namespace: "team", Name: "c"})
	if len(s.owners.of) != 0 || len(s.owners.tasks) != 0 {
		t.Errorf("left over: %v", s.owners.of)
	}
}

func TestAFeedTellsOfAllTasksOfItsOwner(t *testing.T) {
	s := NewStore(nil)
	s.Observe(owned("a", "1", "ann"))
	feed := s.Follow("team", v1alpha1.Identity{Issuer: "test", Subject: "ann"})
	if got := feed.Take(); len(got) != 0 {
		t.Errorf("what was there before is told: %v", got)
	}
	s.Observe(owned("a", "2", "ann"))
	s.Observe(owned("a", "3", "ann"))
	s.Observe(owned("b", "4", "bob"))
	s.Remember(owned("c", "5", "ann"))
	<-feed.Changed()
	got := feed.Take()
	slices.SortFunc(got, func(a, b types.NamespacedName) int { return int(a.Name[0]) - int(b.Name[0]) })
	if len(got) != 2 || got[0].Name != "a" || got[1].Name != "c" {
		t.Errorf("told is %v", got)
	}
	s.Forget(types.NamespacedName{Namespace: "team", Name: "a"})
	<-feed.Changed()
	if got := feed.Take(); len(got) != 1 || got[0].Name != "a" {
		t.Errorf("told is %v", got)
	}
	feed.Stop()
	s.Observe(owned("c", "6", "ann"))
	if got := feed.Take(); len(got) != 0 || len(s.owners.feeds) != 0 {
		t.Errorf("after its end the feed tells %v", got)
	}
}
