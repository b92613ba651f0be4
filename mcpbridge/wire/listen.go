package wire

import (
	"encoding/json"
	"fmt"

	sigsjson "sigs.k8s.io/json"
)

const (
	// MetaSubscriptionID is the key of _meta that names the stream of a message (Subscriptions, Receiving Notifications).
	MetaSubscriptionID = "io.modelcontextprotocol/subscriptionId"

	// maxTaskIDs bounds the tasks of one stream, maxSubscriptionIDBytes the id that stands in each of its messages.
	maxTaskIDs             = 256
	maxSubscriptionIDBytes = 1024
)

// Filter is what a subscriptions/listen asks for, or is granted (Subscriptions, Notification Filter; tasks, Task Status
// Notifications).
type Filter struct {
	ToolsListChanged bool
	// TaskIDs are different from one another; nil when there is no word of tasks, empty when there is and none is named.
	TaskIDs []string
}

// ReadFilter reads the parameter notifications of subscriptions/listen. Kinds of notifications that the bridge does not
// have are no error: the acknowledgement lacks them.
func ReadFilter(raw json.RawMessage) (Filter, *Error) {
	if !IsObject(raw) {
		return Filter{}, InvalidParams("params.notifications must be an object")
	}
	var fields struct {
		Tools         json.RawMessage `json:"toolsListChanged"`
		Prompts       json.RawMessage `json:"promptsListChanged"`
		Resources     json.RawMessage `json:"resourcesListChanged"`
		Subscriptions json.RawMessage `json:"resourceSubscriptions"`
		TaskIDs       json.RawMessage `json:"taskIds"`
	}
	if duplicates, err := sigsjson.UnmarshalStrict(raw, &fields, sigsjson.DisallowDuplicateFields); err != nil || len(duplicates) > 0 {
		return Filter{}, InvalidParams("a field of params.notifications stands there twice")
	}
	for _, flag := range []struct {
		name  string
		value json.RawMessage
	}{{"toolsListChanged", fields.Tools}, {"promptsListChanged", fields.Prompts}, {"resourcesListChanged", fields.Resources}} {
		if value := string(flag.value); value != "" && value != "true" && value != "false" {
			return Filter{}, InvalidParams("params.notifications." + flag.name + " must be true or false")
		}
	}
	if _, ok := texts(fields.Subscriptions); !ok {
		return Filter{}, InvalidParams("params.notifications.resourceSubscriptions must be an array of strings")
	}
	ids, ok := texts(fields.TaskIDs)
	if !ok {
		return Filter{}, InvalidParams("params.notifications.taskIds must be an array of strings")
	}
	if len(ids) > maxTaskIDs {
		return Filter{}, InvalidParams(fmt.Sprintf("params.notifications.taskIds may name at most %d tasks", maxTaskIDs))
	}
	return Filter{ToolsListChanged: string(fields.Tools) == "true", TaskIDs: ids}, nil
}

// texts reads an array of strings and leaves repetitions out. Nothing at all is nil.
func texts(raw json.RawMessage) ([]string, bool) {
	if len(raw) == 0 {
		return nil, true
	}
	var values []json.RawMessage
	if raw[0] != '[' || json.Unmarshal(raw, &values) != nil {
		return nil, false
	}
	all, seen := make([]string, 0, len(values)), make(map[string]bool, len(values))
	for _, value := range values {
		text, ok := Text(value)
		if !ok {
			return nil, false
		}
		if !seen[text] {
			seen[text] = true
			all = append(all, text)
		}
	}
	return all, true
}

// Subscription writes the messages of one stream. All of them carry the id of the request that opened it.
type Subscription struct {
	id json.RawMessage
	// meta is the field _meta, taskTail what follows the fields of a task.
	meta, taskTail []byte
}

var taskHead = []byte(`{"jsonrpc":"2.0","method":"notifications/tasks","params":{`)

// NewSubscription makes the messages for the stream of the request with this id.
func NewSubscription(id json.RawMessage) (Subscription, *Error) {
	if len(id) > maxSubscriptionIDBytes {
		return Subscription{}, InvalidRequest(fmt.Sprintf("the id of subscriptions/listen may have at most %d bytes", maxSubscriptionIDBytes))
	}
	s := Subscription{id: id, meta: fmt.Appendf(nil, `"_meta":{"%s":%s}`, MetaSubscriptionID, id)}
	s.taskTail = fmt.Appendf(nil, `,%s}}`, s.meta)
	return s, nil
}

// Acknowledged is the first message: what the server will tell (Subscriptions, Acknowledgment).
func (s Subscription) Acknowledged(granted Filter) []byte {
	filter, _ := json.Marshal(struct {
		ToolsListChanged bool     `json:"toolsListChanged,omitempty"`
		TaskIDs          []string `json:"taskIds,omitzero"`
	}(granted)) // flags and strings always marshal
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":%s,%s}}`, filter, s.meta)
}

// Task is the notification of a task's state, in parts that are written one after the other: the fields, which
// GetTaskResult made, may be large and are shared by all streams.
func (s Subscription) Task(fields []byte) (head, middle, tail []byte) {
	return taskHead, fields, s.taskTail
}

// ToolsListChanged is the notification that tools/list would say something else than before.
func (s Subscription) ToolsListChanged() []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{%s}}`, s.meta)
}

// Response is the answer to the request: the stream ends because the server wants it to (Subscriptions, Graceful Closure).
func (s Subscription) Response() []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"%s",%s}}`, s.id, resultComplete, s.meta)
}

// Cancelled says the same as Response, in the way that Cancellation asks for.
func (s Subscription) Cancelled(reason string) []byte {
	text, _ := json.Marshal(reason) // strings always marshal
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"reason":%s,%s}}`, s.id, text, s.meta)
}
