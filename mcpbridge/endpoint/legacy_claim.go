package endpoint

import (
	"context"
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

// showing is where a question was put to an older client: on a stream of which session, of which kind, and when.
type showing struct {
	Session string `json:"session"`
	Listens bool   `json:"listens,omitempty"`
	At      int64  `json:"at"` // milliseconds since 1970
}

// claim says whether a question that this replica would show may be shown: no other replica has it on a stream of the same
// session. The task itself keeps who has, so that the streams of one client may reach any replicas. Asking twice is
// better than not at all: where the API server does not answer, the question is shown.
func (t *teller) claim(task *v1alpha1.McpTask, key string) bool {
	if t.taken(task, key) {
		return false // as far as this replica knows already
	}
	ctx, stop := context.WithTimeout(t.x.http.Context(), writeLimit)
	defer stop()
	mine := true
	name := types.NamespacedName{Namespace: task.Namespace, Name: task.Name}
	marked, err := t.e.API.Mark(ctx, name, v1alpha1.AnnotationShown, func(stored *v1alpha1.McpTask) string {
		if mine = !t.taken(stored, key); !mine {
			return ""
		}
		shown := showings(stored)
		open := map[string]showing{key: {Session: t.x.session.ID, Listens: t.listens(), At: time.Now().UnixMilli()}}
		for _, q := range wire.Outstanding(stored) { // of the others only those that are still open
			if s, ok := shown[q.Key]; ok && q.Key != key {
				open[q.Key] = s
			}
		}
		text, err := json.Marshal(open)
		if err != nil {
			return ""
		}
		return string(text)
	})
	if err != nil {
		t.e.Log.Warn("whether another replica shows a question is not known", "namespace", task.Namespace, "task", task.Name, "error", err)
		return true
	}
	t.e.Store.Remember(marked)
	return mine
}

// taken says whether another stream of the session has the question: what the GET stream has is not repeated on others for
// a while, and what others have not on it. A GET stream takes over from those that were there before it.
func (t *teller) taken(task *v1alpha1.McpTask, key string) bool {
	s, ok := showings(task)[key]
	at := time.UnixMilli(s.At)
	switch {
	case !ok || s.Session != t.x.session.ID || time.Since(at) >= askAgain:
		return false
	case t.listens() && s.Listens:
		return at.After(t.since)
	}
	return t.listens() || s.Listens
}

// showings are what the task says about its questions; nothing when it cannot be read.
func showings(task *v1alpha1.McpTask) map[string]showing {
	shown := map[string]showing{}
	_ = json.Unmarshal([]byte(task.Annotations[v1alpha1.AnnotationShown]), &shown)
	return shown
}
