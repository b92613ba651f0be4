// Package observe records what becomes of the tasks, Jobs and Pods of a namespace, from watches that are opened anew whenever
// they break.
package observe

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/mcptask/mcptask/test/chaos/record"
)

// Resources that are recorded.
var Resources = map[string]schema.GroupVersionResource{
	"McpTask": {Group: "mcptask.dev", Version: "v1alpha1", Resource: "mcptasks"},
	"Job":     {Group: "batch", Version: "v1", Resource: "jobs"},
	"Pod":     {Version: "v1", Resource: "pods"},
	"Secret":  {Version: "v1", Resource: "secrets"},
}

// Follow records one kind until the context ends.
func Follow(ctx context.Context, client dynamic.Interface, log *record.Log, namespace, kind string) {
	f := &follower{api: client.Resource(Resources[kind]).Namespace(namespace), log: log, kind: kind, known: map[string]record.Object{}}
	for ctx.Err() == nil {
		if err := f.once(ctx); err != nil {
			select { // the API server is away
			case <-ctx.Done():
			case <-time.After(300 * time.Millisecond):
			}
		}
	}
}

type follower struct {
	api  dynamic.ResourceInterface
	log  *record.Log
	kind string
	// known objects by UID, as they were recorded last.
	known map[string]record.Object
}

// once lists, and watches from there until the watch breaks.
func (f *follower) once(ctx context.Context) error {
	limited, stop := context.WithTimeout(ctx, 10*time.Second)
	list, err := f.api.List(limited, v1.ListOptions{})
	stop()
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for i := range list.Items {
		there[string(list.Items[i].GetUID())] = true
		f.see(watch.Modified, &list.Items[i])
	}
	for uid, object := range f.known {
		if !there[uid] {
			object.Event, object.At = "GONE", time.Now()
			f.log.Object(object)
			delete(f.known, uid)
		}
	}
	seconds := int64(300)
	events, err := f.api.Watch(ctx, v1.ListOptions{ResourceVersion: list.GetResourceVersion(), TimeoutSeconds: &seconds})
	if err != nil {
		return err
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok || event.Type == watch.Error || event.Type == watch.Bookmark {
			return fmt.Errorf("the watch ended: %v", event.Object)
		}
		f.see(event.Type, object)
	}
	return nil
}

// see records an object if it is new, gone or changed in what counts.
func (f *follower) see(event watch.EventType, object *unstructured.Unstructured) {
	now := Summary(f.kind, object)
	before, known := f.known[now.UID]
	if !known && event == watch.Modified {
		event = watch.Added
	}
	now.Event = string(event)
	before.At, before.Event = now.At, now.Event
	if event == watch.Modified && reflect.DeepEqual(before, now) {
		return
	}
	now.At = time.Now()
	f.log.Object(now)
	f.known[now.UID] = now
	if event == watch.Deleted {
		delete(f.known, now.UID)
	}
}

// Summary is what is recorded of an object.
func Summary(kind string, object *unstructured.Unstructured) record.Object {
	text := func(path ...string) string {
		value, _, _ := unstructured.NestedString(object.Object, path...) // "" when it is something else
		return value
	}
	o := record.Object{
		Kind: kind, Name: object.GetName(), UID: string(object.GetUID()), CreatedAt: object.GetCreationTimestamp().Time, Finalizers: object.GetFinalizers(),
		Nonce: text("spec", "arguments", "nonce"), Node: text("spec", "nodeName"), Message: text("status", "message"), Reason: text("status", "reason"),
	}
	for _, owner := range object.GetOwnerReferences() {
		o.Owner = string(owner.UID)
	}
	switch kind {
	case "McpTask":
		o.Task, o.State = o.Name, text("status", "state")
		o.ExpiresAt, _ = time.Parse(time.RFC3339, text("status", "expiresAt")) // zero when it is not there
	case "Job":
		o.Task = o.Name
		o.State = conditions(object)
	case "Pod":
		o.Task, o.State = object.GetLabels()["job-name"], text("status", "phase")
	}
	return o
}

// conditions are those of a Job that hold.
func conditions(object *unstructured.Unstructured) string {
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	var all []string
	for _, item := range list {
		if condition, ok := item.(map[string]any); ok && condition["status"] == "True" {
			all = append(all, fmt.Sprint(condition["type"]))
		}
	}
	return strings.Join(all, ",")
}
