package wire

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	sigsjson "sigs.k8s.io/json"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// The older revisions that are served. Only the newest of them knows tasks.
const (
	Version20251125 = "2025-11-25"
	Version20250618 = "2025-06-18"
	Version20250326 = "2025-03-26"
)

// MetaRelatedTask is the key of _meta that names the task of a message (2025-11-25, Tasks, Related Task Metadata).
const MetaRelatedTask = "io.modelcontextprotocol/related-task"

var legacyVersions = []string{Version20251125, Version20250618, Version20250326}

// Versions are all revisions that are served, the newest first.
func Versions() []string { return append([]string{ProtocolVersion}, legacyVersions...) }

// Legacy says whether this is one of the older revisions.
func Legacy(version string) bool { return slices.Contains(legacyVersions, version) }

// LegacyTasks says whether the older revision knows tasks.
func LegacyTasks(version string) bool { return version == Version20251125 }

// ClientResponse is a client's response to a request of the server.
type ClientResponse struct {
	// ID is the JSON text of the id of the request.
	ID json.RawMessage
	// Result is the JSON text of the result, nil when the client answered with an error.
	Result json.RawMessage
}

// ReadLegacyParams reads the parameters of an older revision's request: none need be there, nor need _meta.
func (r *Request) ReadLegacyParams() *Error {
	if len(r.params) == 0 {
		return nil
	}
	if !IsObject(r.params) {
		return InvalidParams("params must be an object")
	}
	meta, failure := r.readFields()
	if failure != nil || len(meta) == 0 {
		return failure
	}
	if !IsObject(meta) {
		return InvalidParams("params._meta must be an object")
	}
	_, failure = r.Params.Meta.readFields(meta)
	return failure
}

// Initialization is what a client says of itself (2025-11-25, Lifecycle, Initialization).
type Initialization struct {
	// Version that the client asks for.
	Version string
	// Capabilities is a JSON object.
	Capabilities json.RawMessage
}

// ReadInitialization reads the parameters of initialize.
func (r *Request) ReadInitialization() (*Initialization, *Error) {
	var fields struct {
		Version      json.RawMessage `json:"protocolVersion"`
		Capabilities json.RawMessage `json:"capabilities"`
	}
	if len(r.params) == 0 || sigsjson.UnmarshalCaseSensitivePreserveInts(r.params, &fields) != nil {
		return nil, InvalidParams("params must be an object with protocolVersion and capabilities")
	}
	version, ok := Text(fields.Version)
	if !ok {
		return nil, InvalidParams("params.protocolVersion must be a string")
	}
	if len(fields.Capabilities) == 0 {
		fields.Capabilities = json.RawMessage(`{}`)
	}
	if _, err := ReadCapabilities(fields.Capabilities); err != nil || !IsObject(fields.Capabilities) {
		return nil, InvalidParams("params.capabilities must be an object of objects")
	}
	return &Initialization{Version: version, Capabilities: fields.Capabilities}, nil
}

// LegacyElicitation is what a client of an older revision can ask its user: nothing at all in 2025-03-26, forms in
// 2025-06-18.
func LegacyElicitation(version string, capabilities json.RawMessage) Elicitation {
	declared, err := ReadCapabilities(capabilities)
	switch {
	case err != nil || version == Version20250326:
		return Elicitation{}
	case version == Version20250618:
		return Elicitation{Form: declared.Elicitation != Elicitation{}}
	}
	return declared.Elicitation
}

// InitializeResult answers initialize. It never shows the extension of 2026-07-28.
func InitializeResult(version string, server ServerInfo, listsTasks bool) ([]byte, error) {
	type object = struct{}
	capabilities := map[string]any{"tools": map[string]bool{"listChanged": true}}
	if LegacyTasks(version) {
		tasks := map[string]any{"cancel": object{}, "requests": map[string]any{"tools": map[string]any{"call": object{}}}}
		if listsTasks {
			tasks["list"] = object{}
		}
		capabilities["tasks"] = tasks
	}
	return json.Marshal(struct {
		Version      string         `json:"protocolVersion"`
		Capabilities map[string]any `json:"capabilities"`
		ServerInfo   ServerInfo     `json:"serverInfo"`
	}{version, capabilities, server})
}

// LegacyHTTPStatus is the HTTP status of an answer with this error to an older client. Those take every status but 200
// for a fault of the connection, and do not look for the error in it.
func (e *Error) LegacyHTTPStatus() int {
	if e.Status == 0 && (e.Code == CodeMethodNotFound || e.Code == CodeInvalidParams) {
		return http.StatusOK
	}
	return e.HTTPStatus()
}

// Notification is a whole notification. params is JSON, or nil.
func Notification(method string, params json.RawMessage) []byte {
	message, _ := json.Marshal(struct {
		JSONRPC string          `json:"jsonrpc"`
		Method  string          `json:"method"`
		Params  json.RawMessage `json:"params,omitempty"`
	}{"2.0", method, params}) // made here: it marshals
	return message
}

// ProgressNotification tells how far the work is (2025-11-25, Progress). task is "" where the client knows of none.
func ProgressNotification(token json.RawMessage, current, total float64, message, task string) []byte {
	params, _ := json.Marshal(struct {
		Token    json.RawMessage `json:"progressToken"`
		Progress float64         `json:"progress"`
		Total    float64         `json:"total,omitzero"`
		Message  string          `json:"message,omitempty"`
		Meta     *relatedMeta    `json:"_meta,omitempty"`
	}{token, current, total, message, related(task)}) // the token was parsed, the numbers are finite
	return Notification("notifications/progress", params)
}

type relatedTask struct {
	TaskID string `json:"taskId"`
}

type relatedMeta struct {
	Task relatedTask `json:"io.modelcontextprotocol/related-task"`
}

func related(task string) *relatedMeta {
	if task == "" {
		return nil
	}
	return &relatedMeta{relatedTask{task}}
}

// withRelated adds the task to a _meta object, which may be nil.
func withRelated(meta json.RawMessage, task string) (json.RawMessage, error) {
	if task == "" {
		return meta, nil
	}
	fields := map[string]json.RawMessage{}
	if len(meta) > 0 {
		if err := json.Unmarshal(meta, &fields); err != nil {
			return nil, fmt.Errorf("_meta: %w", err)
		}
	}
	fields[MetaRelatedTask], _ = json.Marshal(relatedTask{task}) // a string marshals
	return json.Marshal(fields)
}

// questionPrefix begins the ids of the requests that ask questions.
const questionPrefix = "mcptask/"

// QuestionID is the id of the request that asks a question of a task. It is the same on every stream and every replica,
// so that an answer finds its question wherever it arrives.
func QuestionID(task, key string) string { return questionPrefix + task + "/" + key }

// ReadQuestionID reads what QuestionID made.
func ReadQuestionID(id json.RawMessage) (task, key string, ok bool) {
	text, _ := Text(id)
	rest, ours := strings.CutPrefix(text, questionPrefix)
	task, key, ok = strings.Cut(rest, "/")
	return task, key, ours && ok && v1alpha1.ValidTaskID(task) && key != ""
}

// ElicitationRequest is the whole request that asks a question. The client learns the task only where it has its handle.
func ElicitationRequest(task string, q v1alpha1.InputRequest, hasHandle bool) ([]byte, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(q.Params.Raw, &fields); err != nil {
		return nil, fmt.Errorf("question %s of task %s: %w", q.Key, task, err)
	}
	id, err := json.Marshal(QuestionID(task, q.Key))
	if err != nil {
		return nil, fmt.Errorf("question %s of task %s: %w", q.Key, task, err)
	}
	if hasHandle {
		if fields["_meta"], err = withRelated(fields["_meta"], task); err != nil {
			return nil, fmt.Errorf("question %s of task %s: %w", q.Key, task, err)
		}
	}
	if _, given := fields["elicitationId"]; !given && Mode(q) == ModeURL {
		fields["elicitationId"] = id // it must be unique at this server
	}
	return json.Marshal(struct {
		JSONRPC string                     `json:"jsonrpc"`
		ID      json.RawMessage            `json:"id"`
		Method  string                     `json:"method"`
		Params  map[string]json.RawMessage `json:"params"`
	}{"2.0", id, q.Method, fields})
}
