package wire

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	sigsjson "sigs.k8s.io/json"
)

const (
	// ProtocolVersion is the revision that the bridge speaks.
	ProtocolVersion = "2026-07-28"
	// TasksExtension is the name of the tasks extension.
	TasksExtension = "io.modelcontextprotocol/tasks"

	// MetaProtocolVersion, MetaClientCapabilities and MetaServerInfo are keys of _meta (Overview, _meta).
	MetaProtocolVersion    = "io.modelcontextprotocol/protocolVersion"
	MetaClientCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaServerInfo         = "io.modelcontextprotocol/serverInfo"
	// MetaIdempotencyKey is the key of _meta with which a client marks all tries of one call as the same.
	MetaIdempotencyKey = "mcptask.dev/idempotencyKey"

	// maxDepth is how deep a body may nest: far more than any call needs, far less than what burdens a decoder.
	maxDepth = 128
	// maxTokenBytes bounds a progress token, which is stored with the task.
	maxTokenBytes = 1024
)

// Request is a JSON-RPC request. Its fields are the caller's text, each of the kind that its comment says.
type Request struct {
	// ID is the JSON text of the id, a string or an integer; nil in a notification.
	ID json.RawMessage
	// Method as it was sent.
	Method string
	// Params are the parameters, once ReadParams has read them.
	Params Params
	// Response is set when the message is a response instead, which only the older revisions have.
	Response *ClientResponse

	params json.RawMessage
}

// Params are the parameters that the bridge itself looks at.
type Params struct {
	// Name and Arguments of the tool, TaskID, InputResponses, RequestState, Cursor and Notifications: JSON texts of any
	// kind, or nil.
	Name, Arguments, TaskID, InputResponses, RequestState, Cursor, Notifications json.RawMessage
	// Task asks for a task in 2025-11-25, and is nothing in 2026-07-28.
	Task json.RawMessage
	Meta Meta
}

// Meta is what params._meta declares.
type Meta struct {
	// Version is the protocol version; "" when it is missing or no string.
	Version string
	// Capabilities is the JSON object of the client's capabilities.
	Capabilities json.RawMessage
	// Tasks says that the client declared the tasks extension.
	Tasks bool
	// Elicitation is what the client can ask its user.
	Elicitation Elicitation
	// IdempotencyKey is the same in all tries of one call; "" without one.
	IdempotencyKey string
	// ProgressToken is a JSON string or integer, or nil.
	ProgressToken json.RawMessage

	raw json.RawMessage
}

// ReadRequest reads the body of a POST. The request is never nil: with an error it has what could be read.
func ReadRequest(body []byte) (*Request, *Error) {
	r := &Request{}
	if !utf8.Valid(body) {
		return r, newError(CodeParseError, "Parse error: the body is not UTF-8")
	}
	if tooDeep(body) {
		return r, InvalidRequest(fmt.Sprintf("the body nests deeper than %d levels", maxDepth))
	}
	if text := strings.TrimLeft(string(body[:min(len(body), 64)]), " \t\r\n"); strings.HasPrefix(text, "[") {
		return r, InvalidRequest("batches are not supported: send one request for each POST")
	}
	var envelope struct {
		JSONRPC json.RawMessage `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  json.RawMessage `json:"method"`
		Params  json.RawMessage `json:"params"`
		Result  json.RawMessage `json:"result"`
		Error   json.RawMessage `json:"error"`
	}
	duplicates, err := sigsjson.UnmarshalStrict(body, &envelope, sigsjson.DisallowDuplicateFields)
	if isSyntax, _ := sigsjson.SyntaxErrorOffset(err); isSyntax {
		return r, newError(CodeParseError, "Parse error: the body is not JSON")
	}
	if err != nil {
		return r, InvalidRequest("the body must be a JSON object")
	}
	if len(envelope.ID) > 0 {
		if !isIdentifier(envelope.ID) {
			return r, InvalidRequest("id must be a string or an integer")
		}
		r.ID = envelope.ID
	}
	if len(duplicates) > 0 {
		return r, InvalidRequest("a field of the request stands there twice")
	}
	if version, ok := Text(envelope.JSONRPC); !ok || version != "2.0" {
		return r, InvalidRequest(`jsonrpc must be "2.0"`)
	}
	if len(envelope.Method) == 0 && (IsObject(envelope.Result) || IsObject(envelope.Error)) && r.ID != nil {
		r.Response, r.ID = &ClientResponse{ID: r.ID, Result: envelope.Result}, nil // the id is the server's own
		return r, nil
	}
	method, ok := Text(envelope.Method)
	if !ok {
		return r, InvalidRequest("method must be a string: only requests and notifications are accepted")
	}
	r.Method, r.params = method, envelope.Params
	return r, nil
}

// ReadParams reads the parameters and checks what every request must declare (Overview, Per-request protocol fields).
// With an error r.Params has what could be read.
func (r *Request) ReadParams() *Error {
	if len(r.params) == 0 || r.params[0] != '{' {
		return InvalidParams("params must be an object with _meta")
	}
	meta, failure := r.readFields()
	if failure != nil {
		return failure
	}
	return r.Params.Meta.read(meta)
}

// readFields reads what stands directly in params, and returns _meta.
func (r *Request) readFields() (json.RawMessage, *Error) {
	var fields struct {
		Meta          json.RawMessage `json:"_meta"`
		Name          json.RawMessage `json:"name"`
		Arguments     json.RawMessage `json:"arguments"`
		TaskID        json.RawMessage `json:"taskId"`
		Responses     json.RawMessage `json:"inputResponses"`
		State         json.RawMessage `json:"requestState"`
		Cursor        json.RawMessage `json:"cursor"`
		Notifications json.RawMessage `json:"notifications"`
		Task          json.RawMessage `json:"task"`
	}
	if duplicates, err := sigsjson.UnmarshalStrict(r.params, &fields, sigsjson.DisallowDuplicateFields); err != nil || len(duplicates) > 0 {
		return nil, InvalidParams("a field of params stands there twice")
	}
	r.Params = Params{
		Name: fields.Name, Arguments: fields.Arguments, TaskID: fields.TaskID, InputResponses: fields.Responses,
		RequestState: fields.State, Cursor: fields.Cursor, Notifications: fields.Notifications, Task: fields.Task,
	}
	return fields.Meta, nil
}

func (m *Meta) read(raw json.RawMessage) *Error {
	if len(raw) == 0 || raw[0] != '{' {
		return InvalidParams("params._meta must be an object")
	}
	declared, failure := m.readFields(raw)
	if failure != nil {
		return failure
	}
	if m.Version == "" {
		return InvalidParams("missing or invalid params._meta field " + MetaProtocolVersion)
	}
	if len(declared) == 0 || declared[0] != '{' {
		return InvalidParams("missing or invalid params._meta field " + MetaClientCapabilities)
	}
	capabilities, err := ReadCapabilities(declared)
	if err != nil {
		return InvalidParams("invalid extensions or elicitation in params._meta field " + MetaClientCapabilities)
	}
	m.Capabilities, m.Tasks, m.Elicitation = declared, capabilities.Tasks, capabilities.Elicitation
	return nil
}

// readFields reads what stands in _meta, and returns the client's capabilities.
func (m *Meta) readFields(raw json.RawMessage) (json.RawMessage, *Error) {
	var fields struct {
		Version        json.RawMessage `json:"io.modelcontextprotocol/protocolVersion"`
		Capabilities   json.RawMessage `json:"io.modelcontextprotocol/clientCapabilities"`
		ProgressToken  json.RawMessage `json:"progressToken"`
		IdempotencyKey json.RawMessage `json:"mcptask.dev/idempotencyKey"`
	}
	if duplicates, err := sigsjson.UnmarshalStrict(raw, &fields, sigsjson.DisallowDuplicateFields); err != nil || len(duplicates) > 0 {
		return nil, InvalidParams("a field of params._meta stands there twice")
	}
	m.raw = raw
	m.Version, _ = Text(fields.Version)
	if len(fields.ProgressToken) > 0 && (!isIdentifier(fields.ProgressToken) || len(fields.ProgressToken) > maxTokenBytes) {
		return nil, InvalidParams(fmt.Sprintf("params._meta.progressToken must be a string or an integer of at most %d bytes", maxTokenBytes))
	}
	m.ProgressToken = fields.ProgressToken
	if len(fields.IdempotencyKey) > 0 {
		key, ok := Text(fields.IdempotencyKey)
		if !ok || key == "" || len(key) > maxTokenBytes {
			return nil, InvalidParams(fmt.Sprintf("params._meta field %s must be a string of 1 to %d bytes", MetaIdempotencyKey, maxTokenBytes))
		}
		m.IdempotencyKey = key
	}
	return fields.Capabilities, nil
}

// IsNotification says whether the message expects no answer.
func (r *Request) IsNotification() bool { return r.ID == nil }

// ExactID says whether the id survives a JSON decoder that keeps numbers as 64-bit floats.
func (r *Request) ExactID() bool {
	if len(r.ID) > 0 && r.ID[0] == '"' {
		return true
	}
	n, err := strconv.ParseInt(string(r.ID), 10, 64)
	return err == nil && n > -1<<53 && n < 1<<53
}

// Body writes the request anew under the given id, with nothing in it but what was read and checked here.
func (r *Request) Body(id json.RawMessage) ([]byte, error) {
	type params struct {
		Name      json.RawMessage `json:"name,omitempty"`
		Arguments json.RawMessage `json:"arguments,omitempty"`
		Cursor    json.RawMessage `json:"cursor,omitempty"`
		Meta      json.RawMessage `json:"_meta,omitempty"`
	}
	return json.Marshal(struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  string          `json:"method"`
		Params  params          `json:"params"`
	}{"2.0", id, r.Method, params{r.Params.Name, r.Params.Arguments, r.Params.Cursor, r.Params.Meta.raw}})
}

// IsObject says whether a parameter is a JSON object.
func IsObject(raw json.RawMessage) bool {
	return len(raw) > 0 && raw[0] == '{'
}

// Text is the value of a JSON string; false for everything else, nothing at all included.
func Text(raw json.RawMessage) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	inner := raw[1 : len(raw)-1]
	for _, b := range inner {
		if b == '\\' {
			var s string
			err := json.Unmarshal(raw, &s)
			return s, err == nil
		}
	}
	return string(inner), true
}

// isIdentifier says whether the JSON text is a string or an integer, as ids and progress tokens are.
func isIdentifier(raw json.RawMessage) bool {
	if raw[0] == '"' {
		return true
	}
	digits := raw
	if digits[0] == '-' {
		digits = digits[1:]
	}
	for _, b := range digits {
		if b < '0' || b > '9' {
			return false
		}
	}
	return len(digits) > 0
}

// tooDeep bounds the nesting before anything recursive reads the body.
func tooDeep(body []byte) bool {
	depth, inString, escaped := 0, false, false
	for _, b := range body {
		switch {
		case escaped:
			escaped = false
		case inString:
			escaped = b == '\\'
			inString = b != '"'
		case b == '"':
			inString = true
		case b == '{' || b == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case b == '}' || b == ']':
			depth--
		}
	}
	return false
}

// DecodeHeader undoes the Base64 form of a header value (Streamable HTTP, Value Encoding); false when it is malformed.
func DecodeHeader(value string) (string, bool) {
	encoded, ok := strings.CutPrefix(value, "=?base64?")
	if !ok {
		return value, true
	}
	encoded, ok = strings.CutSuffix(encoded, "?=")
	if !ok {
		return value, true
	}
	decoded, err := base64.StdEncoding.DecodeString(encoded)
	return string(decoded), err == nil
}
