package endpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/tasks"
	"github.com/mcptask/mcptask/mcpbridge/tools"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

// createOnce stores the task of a call. All tries of a call that carries an idempotency key get one task: its name is made
// of the key, so that the API server itself lets only one of them make it, whichever replicas they reach.
func (e *Endpoint) createOnce(x *exchange, tool *tools.Tool, task *v1alpha1.McpTask, key string) (*v1alpha1.McpTask, *wire.Error) {
	if key == "" {
		return e.createWithin(x, tool, task)
	}
	owner := task.Spec.Owner
	names := e.Keys.TaskNames(task.Namespace, owner.Issuer, owner.Subject, task.Spec.ToolName, key)
	task.Name = names[0]
	metav1.SetMetaDataAnnotation(&task.ObjectMeta, v1alpha1.AnnotationArgumentsDigest, digest(task.Spec.Arguments.Raw))
	for _, name := range names[1:] { // given before a rotation; of names[0] the creation itself finds out
		first, err := e.finder.Find(x.http.Context(), types.NamespacedName{Namespace: task.Namespace, Name: name}, x.principal.String())
		switch {
		case err == nil:
			return sameCall(x, task, first)
		case !errors.Is(err, tasks.ErrUnknown):
			return nil, e.notFound(x, err)
		}
	}
	created, failure := e.createWithin(x, tool, task)
	if failure != nil && failure.Code == wire.CodeLimitReached {
		// An earlier try may have been let in, through another replica.
		if first, err := e.finder.Find(x.http.Context(), types.NamespacedName{Namespace: task.Namespace, Name: task.Name}, x.principal.String()); err == nil {
			return sameCall(x, task, first)
		}
	}
	if failure != nil {
		return nil, failure
	}
	return sameCall(x, task, created)
}

// createWithin stores the task if the limits leave room for it.
func (e *Endpoint) createWithin(x *exchange, tool *tools.Tool, task *v1alpha1.McpTask) (*v1alpha1.McpTask, *wire.Error) {
	release, failure := e.reserveTask(x, tool, task)
	if failure != nil {
		return nil, failure
	}
	defer release()
	return e.create(x, task)
}

// idempotencyKey marks all tries of a call: the caller's own key; else, of a call that was asked something first, the state that it
// brings back, which is good for one task.
func idempotencyKey(meta *wire.Meta, state *callState) string {
	if meta.IdempotencyKey == "" && state.Nonce != "" {
		return "state:" + state.Nonce
	}
	return meta.IdempotencyKey
}

// sameCall says whether the task that a key leads to is of this very call.
func sameCall(x *exchange, wanted, found *v1alpha1.McpTask) (*v1alpha1.McpTask, *wire.Error) {
	if !x.principal.Owns(found) || found.Spec.ToolName != wanted.Spec.ToolName ||
		found.Annotations[v1alpha1.AnnotationArgumentsDigest] != wanted.Annotations[v1alpha1.AnnotationArgumentsDigest] {
		return nil, wire.InvalidParams(wordsOfReuse(x))
	}
	return found, nil
}

func wordsOfReuse(x *exchange) string {
	if x.request.Params.Meta.IdempotencyKey == "" {
		return "params.requestState: was used before, with other answers; make the call anew without it"
	}
	return fmt.Sprintf("params._meta field %s: this key was used before, for a call with other arguments; use a new one", wire.MetaIdempotencyKey)
}

// digest is the same for arguments that mean the same: the order of fields and white space do not count.
func digest(arguments json.RawMessage) string {
	canonical, err := wire.Canonical(arguments)
	if err != nil {
		canonical = arguments // they were parsed before: this does not happen
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}
