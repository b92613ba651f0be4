package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mcptask/mcptask/api/report/fit"
	"github.com/mcptask/mcptask/api/v1alpha1"
)

const form = `{"mode":"form","message":"Which one?","requestedSchema":{"type":"object","properties":{
	"name":{"type":"string","title":"Name","format":"email","default":"a@b.c"},
	"size":{"type":"string","enum":["s","m"],"enumNames":["Small","Medium"]},
	"color":{"type":"string","oneOf":[{"const":"r","title":"Red"}]},
	"n":{"type":"integer","minimum":0,"maximum":9.5,"default":3},
	"sure":{"type":"boolean","default":false},
	"some":{"type":"array","minItems":1,"items":{"type":"string","enum":["a","b"]},"default":["a"]},
	"more":{"type":"array","items":{"anyOf":[{"const":"a","title":"A"}]}}},"required":["name"]}}`

func asked(key, params string) string {
	return fmt.Sprintf(`{"key":%q,"method":"elicitation/create","params":%s}`, key, params)
}

func TestAWholeReportIsRead(t *testing.T) {
	r, err := Read([]byte(`{"sequence":7,"progress":{"current":"3","total":"10","message":"page 3"},"stateName":"validating","inputRequests":[
		`+asked("abcdefghijkl-1", form)+`,
		`+asked("k-2", `{"mode":"url","message":"Sign in","url":"https://example.com/a?b=c","elicitationId":"k-2"}`)+`],
		"outcome":"result","result":{"content":[{"type":"text","text":"<done>"}],"structuredContent":{"b":1e2,"a":12345678901234567}},"later":{"version":2}}`), fit.MaxInline)
	if err != nil {
		t.Fatal(err)
	}
	if r.Sequence != 7 || *r.Progress != (v1alpha1.Progress{Current: "3", Total: "10", Message: "page 3"}) || r.StateName != "validating" || r.Outcome != OutcomeResult {
		t.Errorf("read is %+v", r)
	}
	if len(r.InputRequests) != 2 || r.InputRequests[0].Key != "abcdefghijkl-1" || r.InputRequests[0].Method != "elicitation/create" || !Same(r.InputRequests[0].Params.Raw, []byte(form)) {
		t.Errorf("the questions are %+v", r.InputRequests)
	}
	if got, want := string(r.Result.Inline.Raw), `{"content":[{"text":"<done>","type":"text"}],"structuredContent":{"a":12345678901234567,"b":100}}`; got != want {
		t.Errorf("the result is %s", got)
	}
	for text, want := range map[string]string{
		`{"sequence":1}`: "", `{"sequence":1,"outcome":"cancelled","result":null,"error":null,"progress":null,"inputRequests":null}`: OutcomeCancelled,
		`{"sequence":1,"outcome":"failed","error":{"code":-32000,"message":"no","data":{"a":[1.5]}}}`: OutcomeFailed,
		`{"sequence":1,"outcome":"failed","error":{"code":-32602,"message":"no","data":null}}`:        OutcomeFailed,
		`{"sequence":1,"outcome":"failed","error":{"code":0,"message":"no"}}`:                         OutcomeFailed,
	} {
		r, err := Read([]byte(text), fit.MaxInline)
		if err != nil || r.Outcome != want || (r.Error != nil) != (want == OutcomeFailed) {
			t.Errorf("%s: got %+v, %v", text, r, err)
		}
	}
}

func TestMessagesDoNotSteerATerminal(t *testing.T) {
	r, err := Read([]byte(`{"sequence":1,"progress":{"current":"1","message":"page\n\u001b[2J\u202e3"},"inputRequests":[
		`+asked("k-1", `{"mode":"form","message":"Apply?\n\t+ a <b>\r\u0007\u2066","requestedSchema":{"type":"object","properties":{}}}`)+`,
		`+asked("k-2", `{"mode":"url","message":"Sign\u007fin","url":"https://example.com/"}`)+`]}`), fit.MaxInline)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Progress.Message; got != "page  [2J 3" {
		t.Errorf("the progress message is %q", got)
	}
	for i, want := range []string{
		`{"message":"Apply?\n\t+ a <b>   ","mode":"form","requestedSchema":{"properties":{},"type":"object"}}`,
		`{"message":"Sign in","mode":"url","url":"https://example.com/"}`,
	} {
		if got := string(r.InputRequests[i].Params.Raw); got != want {
			t.Errorf("question %d is %s", i, got)
		}
	}
}

func TestAResultThatWasLeftOutHasItsSize(t *testing.T) {
	const notice = `{"content":[{"text":"left out","type":"text"}]}`
	for text, want := range map[string]v1alpha1.TaskResult{
		`{"sequence":1,"outcome":"result","result":` + notice + `}`:                      {Size: int64(len(notice))},
		`{"sequence":1,"outcome":"result","result":` + notice + `,"resultSize":5242888}`: {Size: 5242888, Truncated: true},
		`{"sequence":1,"outcome":"result","result":` + notice + `,"resultSize":1}`:       {Size: int64(len(notice)), Truncated: true},
	} {
		r, err := Read([]byte(text), fit.MaxInline)
		if err != nil {
			t.Fatal(err)
		}
		if r.Result.Size != want.Size || r.Result.Truncated != want.Truncated || string(r.Result.Inline.Raw) != notice {
			t.Errorf("%s: kept is %+v", text, r.Result)
		}
	}
}

func TestAResultThatWasStoredBeforeIsNamedByItsHash(t *testing.T) {
	hash := strings.Repeat("0a", 32)
	r, err := Read([]byte(`{"sequence":1,"outcome":"result","resultRef":{"sha256":"`+hash+`","bytes":600000,"isError":true},"resultSize":9000000}`), fit.MaxInline)
	if err != nil {
		t.Fatal(err)
	}
	want := &v1alpha1.TaskResult{SecretRef: &v1alpha1.SecretReference{Parts: 2}, Size: 9000000, SHA256: hash, Truncated: true, IsError: true}
	if !reflect.DeepEqual(r.Result, want) {
		t.Errorf("got %+v, want %+v", r.Result, want)
	}
}

// wrong are reports that cannot be, by what is said of them.
func wrong() map[string]string {
	question := func(q string) string { return `{"sequence":1,"inputRequests":[` + asked("ok-1", form) + `,` + q + `]}` }
	schema := func(s string) string { return question(asked("k", `{"message":"?","requestedSchema":`+s+`}`)) }
	property := func(p string) string { return schema(`{"type":"object","properties":{"a":` + p + `}}`) }
	result := func(r string) string { return `{"sequence":1,"outcome":"result","result":` + r + `}` }
	failed := func(e string) string { return `{"sequence":1,"outcome":"failed","error":` + e + `}` }
	many := func(n, size int) string {
		var all []string
		for i := range n {
			all = append(all, asked(fmt.Sprint("k-", i), `{"message":"`+strings.Repeat("x", size)+`","requestedSchema":{"type":"object","properties":{}}}`))
		}
		return `{"sequence":1,"inputRequests":[` + strings.Join(all, ",") + `]}`
	}
	const at = "inputRequests[1].params"
	return map[string]string{
		"report: is not JSON":                                                     `{"sequence":1`,
		"report: must be a JSON object":                                           `[]`,
		"report: is not UTF-8":                                                    "{\"sequence\":1,\"stateName\":\"\xff\"}",
		"sequence: must be":                                                       `{}`,
		"sequence: must be a":                                                     `{"sequence":0}`,
		"sequence: must be a whole":                                               `null`,
		"sequence: cannot be a JSON string":                                       `{"sequence":"1"}`,
		"sequence: cannot be a JSON number":                                       `{"sequence":1.5}`,
		"progress: cannot be a JSON number":                                       `{"sequence":1,"progress":3}`,
		"progress.current: is missing":                                            `{"sequence":1,"progress":{"total":"3"}}`,
		"progress.current: must be":                                               `{"sequence":1,"progress":{"current":"a lot"}}`,
		"progress.current: must be a":                                             `{"sequence":1,"progress":{"current":"1e999"}}`,
		"progress.current: must be a decimal":                                     `{"sequence":1,"progress":{"current":"NaN"}}`,
		"progress.current: cannot be a JSON":                                      `{"sequence":1,"progress":{"current":3}}`,
		"progress.total: must be":                                                 `{"sequence":1,"progress":{"current":"1","total":"0x10"}}`,
		"progress.message: has 1025 characters":                                   `{"sequence":1,"progress":{"current":"1","message":"` + strings.Repeat("é", 1025) + `"}}`,
		"stateName: has 65 characters":                                            `{"sequence":1,"stateName":"` + strings.Repeat("é", 65) + `"}`,
		"inputRequests: has 257 questions":                                        many(257, 1),
		"inputRequests: the questions have more":                                  many(20, 15_000),
		"inputRequests[1].key: must have":                                         question(asked("", form)),
		"inputRequests[1].key: must have from":                                    question(asked("a b", form)),
		"inputRequests[1].key: must have from 1":                                  question(asked(strings.Repeat("k", 129), form)),
		"inputRequests[1].key: is that of":                                        question(asked("ok-1", form)),
		"inputRequests[1].method: must be":                                        question(`{"key":"k","method":"sampling/createMessage","params":{}}`),
		at + ": is missing":                                                       question(`{"key":"k","method":"elicitation/create"}`),
		at + ": must be a JSON object":                                            question(asked("k", `[]`)),
		at + ": must be a JSON":                                                   question(asked("k", `null`)),
		at + ": has 16500 bytes":                                                  question(asked("k", `{"m":"`+strings.Repeat("x", 16_492)+`"}`)),
		at + ": missing properties 'message'":                                     question(asked("k", `{}`)),
		at + ".x: this number":                                                    question(asked("k", `{"x":1e400}`)),
		at + ".mode: value must be 'form'":                                        question(asked("k", `{"mode":"voice","message":"?","requestedSchema":{"type":"object","properties":{}}}`)),
		at + ".mode: value must be":                                               question(asked("k", `{"mode":7,"message":"?","requestedSchema":{"type":"object","properties":{}}}`)),
		at + ".message: minLength":                                                question(asked("k", `{"message":"","requestedSchema":{"type":"object","properties":{}}}`)),
		at + ": additional properties 'extra'":                                    question(asked("k", `{"message":"?","extra":1,"requestedSchema":{"type":"object","properties":{}}}`)),
		at + ".url: must be":                                                      question(asked("k", `{"mode":"url","message":"?","url":"javascript:alert(1)"}`)),
		at + ".url: must be an":                                                   question(asked("k", `{"mode":"url","message":"?","url":"https:"}`)),
		at + ".elicitationId: must be":                                            question(asked("k", `{"mode":"url","message":"?","url":"https://a.b","elicitationId":"other"}`)),
		at + ".requestedSchema.type: value must":                                  schema(`{"type":"array","properties":{}}`),
		at + ".requestedSchema: missing property":                                 schema(`{"type":"object"}`),
		at + ".requestedSchema.required[0]: names no property":                    schema(`{"type":"object","properties":{},"required":["a"]}`),
		at + ".requestedSchema.$schema: value must be":                            schema(`{"type":"object","properties":{},"$schema":"https://example.com/own"}`),
		at + ".requestedSchema.properties.a.type: value":                          property(`{"type":"object"}`),
		at + ".requestedSchema.properties.a: missing property 'type'":             property(`{}`),
		at + ".requestedSchema.properties.a: additional properties 'pattern'":     property(`{"type":"string","pattern":".*"}`),
		at + ".requestedSchema.properties.a.format: value":                        property(`{"type":"string","format":"regex"}`),
		at + ".requestedSchema.properties.a.enum[0]: got number":                  property(`{"type":"string","enum":[1]}`),
		at + ".requestedSchema.properties.a: missing property 'items'":            property(`{"type":"array"}`),
		at + ".requestedSchema.properties.a.items.type: value":                    property(`{"type":"array","items":{"type":"number","enum":["a"]}}`),
		at + ".requestedSchema.properties.a.items: missing property 'enum'":       property(`{"type":"array","items":{"type":"string"}}`),
		"stateName: must be plain text in one line, without the character U+001B": `{"sequence":1,"stateName":"a\u001b[2Jb"}`,
		"stateName: must be plain text in one line, without the character U+000A": `{"sequence":1,"stateName":"a\nb"}`,
		"stateName: must be plain text in one line, without the character U+202E": `{"sequence":1,"stateName":"a\u202eb"}`,
		at + ".requestedSchema: additional properties 'additionalProperties'":     schema(`{"type":"object","properties":{},"additionalProperties":false}`),
		"resultRef: does not go with":                                             `{"sequence":1,"outcome":"result","result":{"content":[]},"resultRef":{}}`,
		"resultRef.sha256: must be":                                               `{"sequence":1,"outcome":"result","resultRef":{"sha256":"../x","bytes":1}}`,
		"resultRef.bytes: must be":                                                `{"sequence":1,"outcome":"result","resultRef":{"sha256":"` + strings.Repeat("0a", 32) + `","bytes":9000000}}`,
		"resultSize: goes only with":                                              `{"sequence":1,"resultSize":5}`,
		"resultSize: must be a whole":                                             `{"sequence":1,"outcome":"result","result":{"content":[]},"resultSize":0}`,
		"outcome: must be":                                                        `{"sequence":1,"outcome":"done"}`,
		"result: goes only with":                                                  `{"sequence":1,"result":{"content":[]}}`,
		"result: is missing":                                                      `{"sequence":1,"outcome":"result"}`,
		"result: is missing;":                                                     result(`null`),
		"result: got array":                                                       result(`[]`),
		"result: missing property 'content'":                                      result(`{}`),
		"result.isError: got string":                                              result(`{"content":[],"isError":"no"}`),
		"result.content: got null":                                                result(`{"content":null}`),
		"result.content[1].text: got number":                                      result(`{"content":[{"type":"text","text":""},{"type":"text","text":1}]}`),
		"result.content[0].type: value must":                                      result(`{"content":[{"type":"video"}]}`),
		"result.content[0]: missing properties":                                   result(`{"content":[{"type":"image"}]}`),
		"result.content[0]: missing property":                                     result(`{"content":[{"type":"resource"}]}`),
		"result.structuredContent.a[0]: this num":                                 result(`{"content":[],"structuredContent":{"a":[1e999]}}`),
		"error: goes only with":                                                   `{"sequence":1,"outcome":"cancelled","error":{"code":1,"message":"x"}}`,
		"error: is missing":                                                       `{"sequence":1,"outcome":"failed"}`,
		"error.code: is missing":                                                  failed(`{"message":"x"}`),
		"error.code: cannot be a JSON number":                                     failed(`{"code":3000000000,"message":"x"}`),
		"error.code: must not be -32020":                                          failed(`{"code":-32020,"message":"x"}`),
		"error.code: must not be -32099":                                          failed(`{"code":-32099,"message":"x"}`),
		"error.code: must not be -32002":                                          failed(`{"code":-32002,"message":"x"}`),
		"error.code: must not be -32042":                                          failed(`{"code":-32042,"message":"x"}`),
		"error.code: must not be -32700":                                          failed(`{"code":-32700,"message":"x"}`),
		"error.code: must not be -32601":                                          failed(`{"code":-32601,"message":"x"}`),
		"error.message: must have":                                                failed(`{"code":1}`),
		"error.message: must have from 1 to 4096":                                 failed(`{"code":1,"message":"` + strings.Repeat("x", 4097) + `"}`),
		"error.data: must be a JSON object":                                       failed(`{"code":1,"message":"x","data":[]}`),
		"error.data: has 16500 bytes":                                             failed(`{"code":1,"message":"x","data":{"m":"` + strings.Repeat("x", 16_492) + `"}}`),
		"error.data.x: this number":                                               failed(`{"code":1,"message":"x","data":{"x":1e400}}`),
	}
}

func TestWhatIsWrongIsNamed(t *testing.T) {
	for want, text := range wrong() {
		r, err := Read([]byte(text), fit.MaxInline)
		var fault *Fault
		if !errors.As(err, &fault) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.200s: got %+v, %v; want %s", text, r, err, want)
		}
		if err != nil && len(err.Error()) > 600 {
			t.Errorf("%.200s: %d bytes of explanation", text, len(err.Error()))
		}
	}
}

func TestTheCodesOfAToolAreItsOwn(t *testing.T) {
	for _, code := range []int32{-32000, -32001, -32019, -32100, -32602, -32603, 1, 404, -1} {
		if reserved(code) {
			t.Errorf("%d is refused", code)
		}
	}
}

func TestATaskHasRoomForSoManyQuestions(t *testing.T) {
	ask := func(from, n int) []v1alpha1.InputRequest {
		var all []v1alpha1.InputRequest
		for i := range n {
			all = append(all, v1alpha1.InputRequest{Key: fmt.Sprint("k-", from+i)})
		}
		return all
	}
	answer := func(n int) []v1alpha1.InputResponse {
		var all []v1alpha1.InputResponse
		for i := range n {
			all = append(all, v1alpha1.InputResponse{Key: fmt.Sprint("k-", i), Response: runtime.RawExtension{Raw: []byte(`{}`)}})
		}
		return all
	}
	for name, tc := range map[string]struct {
		told     []v1alpha1.InputRequest
		answers  []v1alpha1.InputResponse
		known    []v1alpha1.InputRequest
		elsewise []v1alpha1.InputRequest
		want     string
	}{
		"none":                    {known: ask(0, 256), elsewise: ask(1000, 256)},
		"as many as may be open":  {told: ask(0, 64)},
		"one more":                {told: ask(0, 65), want: "inputRequests: 65 questions have no answer"},
		"one more, one answered":  {told: ask(0, 65), answers: answer(1)},
		"as many as may be":       {told: ask(0, 256), answers: answer(200), known: ask(0, 256)},
		"too many of the task":    {told: ask(256, 1), known: ask(0, 256), want: "inputRequests: the task would have 257"},
		"too many of all Pods":    {told: ask(256, 1), elsewise: ask(0, 256), want: "inputRequests: the task would have 257"},
		"the same in all of them": {told: ask(0, 10), known: ask(0, 256), elsewise: ask(0, 256)},
	} {
		task := &v1alpha1.McpTask{Spec: v1alpha1.McpTaskSpec{InputResponses: tc.answers}}
		task.Status.InputRequests, task.Status.Runtime = tc.known, []v1alpha1.RuntimeReport{{PodUID: "other", InputRequests: tc.elsewise}}
		err := CheckQuestions(&v1alpha1.RuntimeReport{PodUID: "p", InputRequests: tc.told}, task)
		if (err == nil) != (tc.want == "") || err != nil && !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestJSONThatMeansTheSame(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{`{"a":1,"b":[1.0,"<"]}`, ` {"b" : [1, "\u003c"], "a" : 1}`, true},
		{`{"a":1}`, `{"a":1.5}`, false},
		{`{"a":1}`, `{"a":"1"}`, false},
		{``, ``, true},
		{`{`, `{}`, false},
		{`{}`, `{`, false},
	} {
		if Same([]byte(tc.a), []byte(tc.b)) != tc.want {
			t.Errorf("%s and %s", tc.a, tc.b)
		}
	}
}

// FuzzRead feeds the reader what no sidecar would send: it must neither end the program nor let through what the API
// server would refuse.
func FuzzRead(f *testing.F) {
	for _, text := range wrong() {
		if len(text) < 2000 {
			f.Add([]byte(text))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Read(text, fit.MaxInline)
		if err != nil {
			var fault *Fault
			if !errors.As(err, &fault) || fault.Field == "" || fault.Reason == "" {
				t.Fatalf("the error names no field: %v", err)
			}
			return
		}
		if _, err := json.Marshal(r); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if r.Sequence < 1 || r.Result != nil && r.Result.Inline != nil && len(r.Result.Inline.Raw) > fit.MaxInline || (r.Result != nil) != (r.Outcome == OutcomeResult) || (r.Error != nil) != (r.Outcome == OutcomeFailed) {
			t.Fatalf("read is %+v", r)
		}
		for _, q := range r.InputRequests {
			if again, f := (&question{Key: q.Key, Params: q.Params.Raw}).read("params"); f != nil || string(again) != string(q.Params.Raw) {
				t.Fatalf("what was read of a question is read as another: %s, %v", again, f)
			}
		}
	})
}
