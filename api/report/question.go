package report

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mcptask/mcptask/api/report/plain"
	"github.com/mcptask/mcptask/api/toolschema"
	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

const (
	// MaxQuestions is how many questions a task can have in all.
	MaxQuestions = 256
	// MaxOpenQuestions is how many of them a Pod can have without an answer.
	MaxOpenQuestions = 64
	// maxParamsBytes and maxQuestionsBytes bound one question and all: each is stored again in the task's
	// status.inputRequests, and all that the API server stores of a task is bounded.
	maxParamsBytes    = 16 << 10
	maxQuestionsBytes = 256 << 10
	maxKey            = 128
)

// methodElicit is the one method by which a Pod can ask.
const methodElicit = "elicitation/create"

// question is a question as it is sent.
type question struct {
	Key    string          `json:"key"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

//go:embed question-form.schema.json
var formText []byte

//go:embed question-url.schema.json
var urlText []byte

//go:embed result.schema.json
var resultText []byte

var (
	formSchema   = compiled(formText)
	urlSchema    = compiled(urlText)
	resultSchema = compiled(resultText)
)

// compiled is one of the schemas above, which the tests of this package compile too.
func compiled(text []byte) *toolschema.Schema {
	schema, err := toolschema.Compile(text)
	if err != nil {
		panic(fmt.Sprintf("a schema of this program: %v", err))
	}
	return schema
}

// keyShape lets a key be the name of a member wherever questions are shown.
var keyShape = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

func (b *body) readQuestions(r *v1alpha1.RuntimeReport) *Fault {
	if n := len(b.InputRequests); n > MaxQuestions {
		return fault("inputRequests", "has %d questions, more than %d", n, MaxQuestions)
	}
	total := 0
	keys := map[string]bool{}
	for i, q := range b.InputRequests {
		field := fmt.Sprintf("inputRequests[%d]", i)
		switch {
		case len(q.Key) > maxKey || !keyShape.MatchString(q.Key):
			return fault(field+".key", "must have from 1 to %d letters, digits, dots, hyphens and underscores", maxKey)
		case keys[q.Key]:
			return fault(field+".key", "is that of another question too: %s", q.Key)
		case q.Method != methodElicit:
			return fault(field+".method", "must be %s", methodElicit)
		}
		keys[q.Key] = true
		params, f := q.read(field + ".params")
		if f != nil {
			return f
		}
		if total += len(params); total > maxQuestionsBytes {
			return fault("inputRequests", "the questions have more than %d bytes together", maxQuestionsBytes)
		}
		r.InputRequests = append(r.InputRequests, v1alpha1.InputRequest{Key: q.Key, Method: q.Method, Params: runtime.RawExtension{Raw: params}})
	}
	return nil
}

// read checks the parameters of a question and returns them as they are stored.
func (q *question) read(field string) ([]byte, *Fault) {
	if len(q.Params) == 0 {
		return nil, fault(field, "is missing")
	}
	if len(q.Params) > maxParamsBytes {
		return nil, fault(field, "has %d bytes, more than %d", len(q.Params), maxParamsBytes)
	}
	if f := conform(field, nil, q.Params); f != nil {
		return nil, f
	}
	text, err := canonical(q.Params)
	if err != nil || text[0] != '{' {
		return nil, fault(field, "must be a JSON object")
	}
	var shown struct {
		Mode            string `json:"mode"`
		Message         string `json:"message"`
		URL             string `json:"url"`
		ElicitationID   string `json:"elicitationId"`
		RequestedSchema struct {
			Properties map[string]json.RawMessage `json:"properties"`
			Required   []string                   `json:"required"`
		} `json:"requestedSchema"`
	}
	schema := formSchema
	var mode struct {
		Mode json.RawMessage `json:"mode"`
	}
	if json.Unmarshal(text, &mode) == nil && string(mode.Mode) == `"`+wire.ModeURL+`"` {
		schema = urlSchema
	}
	if f := conform(field, schema, text); f != nil {
		return nil, f
	}
	if err := json.Unmarshal(text, &shown); err != nil {
		return nil, fault(field, "cannot be read: %v", err)
	}
	if schema == urlSchema {
		if u, err := url.Parse(shown.URL); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			return nil, fault(field+".url", "must be an https or http URL")
		}
		if shown.ElicitationID != "" && shown.ElicitationID != q.Key {
			return nil, fault(field+".elicitationId", "must be the question's key")
		}
	}
	for i, name := range shown.RequestedSchema.Required {
		if _, ok := shown.RequestedSchema.Properties[name]; !ok {
			return nil, fault(fmt.Sprintf("%s.requestedSchema.required[%d]", field, i), "names no property")
		}
	}
	message := plain.Text(shown.Message)
	if message == shown.Message {
		return text, nil
	}
	if text, err = withMessage(text, message); err != nil {
		return nil, fault(field, "cannot be read: %v", err)
	}
	return text, nil
}

// withMessage puts another message into the parameters of a question.
func withMessage(params []byte, message string) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(params, &members); err != nil {
		return nil, err
	}
	var err error
	if members["message"], err = json.Marshal(message); err != nil {
		return nil, err
	}
	changed, err := json.Marshal(members)
	if err != nil {
		return nil, err
	}
	return canonical(changed)
}

// CheckQuestions says whether there is room for the questions of a report among those that its task has already. The
// error is a *Fault.
func CheckQuestions(r *v1alpha1.RuntimeReport, stored *v1alpha1.McpTask) error {
	answered := func(q v1alpha1.InputRequest) bool {
		return slices.ContainsFunc(stored.Spec.InputResponses, func(a v1alpha1.InputResponse) bool { return a.Key == q.Key })
	}
	all, open := map[string]bool{}, 0
	for _, q := range r.InputRequests {
		all[q.Key] = true
		if !answered(q) {
			open++
		}
	}
	if open > MaxOpenQuestions {
		return fault("inputRequests", "%d questions have no answer, more than %d", open, MaxOpenQuestions)
	}
	if len(r.InputRequests) == 0 {
		return nil
	}
	for _, q := range stored.Status.InputRequests {
		all[q.Key] = true
	}
	for _, other := range stored.Status.Runtime {
		for _, q := range other.InputRequests {
			all[q.Key] = true
		}
	}
	if len(all) > MaxQuestions {
		return fault("inputRequests", "the task would have %d questions in all, more than %d", len(all), MaxQuestions)
	}
	return nil
}
