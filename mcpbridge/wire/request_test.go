package wire

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestReadRequestRefusesWhatIsNoRequest(t *testing.T) {
	for name, tc := range map[string]struct {
		body string
		code int64
		id   string
	}{
		"nothing":            {``, CodeParseError, ""},
		"no JSON":            {`{"jsonrpc":`, CodeParseError, ""},
		"trailing text":      {`{"jsonrpc":"2.0","id":1,"method":"a"} x`, CodeParseError, ""},
		"not UTF-8":          {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", CodeParseError, ""},
		"batch":              {` [{"jsonrpc":"2.0","id":1,"method":"a"}]`, CodeInvalidRequest, ""},
		"broken batch":       {`[`, CodeInvalidRequest, ""},
		"a string":           {`"x"`, CodeInvalidRequest, ""},
		"null":               {`null`, CodeInvalidRequest, ""},
		"no version":         {`{"id":1,"method":"a"}`, CodeInvalidRequest, "1"},
		"other version":      {`{"jsonrpc":"1.0","id":"x","method":"a"}`, CodeInvalidRequest, `"x"`},
		"wrong case":         {`{"JSONRPC":"2.0","id":1,"method":"a"}`, CodeInvalidRequest, "1"},
		"no method":          {`{"jsonrpc":"2.0","id":1}`, CodeInvalidRequest, "1"},
		"no response":        {`{"jsonrpc":"2.0","id":1,"result":7}`, CodeInvalidRequest, "1"},
		"null as response":   {`{"jsonrpc":"2.0","id":1,"result":null,"error":null}`, CodeInvalidRequest, "1"},
		"response to nobody": {`{"jsonrpc":"2.0","result":{}}`, CodeInvalidRequest, ""},
		"number as method":   {`{"jsonrpc":"2.0","id":1,"method":7}`, CodeInvalidRequest, "1"},
		"null id":            {`{"jsonrpc":"2.0","id":null,"method":"a"}`, CodeInvalidRequest, ""},
		"fraction as id":     {`{"jsonrpc":"2.0","id":1.5,"method":"a"}`, CodeInvalidRequest, ""},
		"exponent as id":     {`{"jsonrpc":"2.0","id":1e3,"method":"a"}`, CodeInvalidRequest, ""},
		"object as id":       {`{"jsonrpc":"2.0","id":{},"method":"a"}`, CodeInvalidRequest, ""},
		"the method twice":   {`{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}`, CodeInvalidRequest, "1"},
		"too deep":           {`{"jsonrpc":"2.0","id":1,"method":"a","params":` + strings.Repeat("[", 1_000_000) + strings.Repeat("]", 1_000_000) + `}`, CodeInvalidRequest, ""},
		"deep and unclosed":  {strings.Repeat(`{"a":`, 500_000), CodeInvalidRequest, ""},
		"brackets in string": {`{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("[{", 500) + `\"[","params":7`, CodeParseError, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := ReadRequest([]byte(tc.body))
			if err == nil || err.Code != tc.code || string(r.ID) != tc.id {
				t.Errorf("got %+v with the id %q, want %d with %q", err, r.ID, tc.code, tc.id)
			}
		})
	}
}

func TestIDsAreKeptAsTheyAre(t *testing.T) {
	for id, exact := range map[string]bool{`1`: true, `-7`: true, `"a\u00e9"`: true, `9007199254740991`: true, `9007199254740993`: false,
		`123456789012345678901234567890`: false} {
		r, err := ReadRequest([]byte(`{"jsonrpc":"2.0", "id": ` + id + ` ,"method":"tasks/get","params":{}}`))
		if err != nil || string(r.ID) != id || r.ExactID() != exact {
			t.Errorf("%s: got %q, exact %v, error %v", id, r.ID, r.ExactID(), err)
		}
	}
}

func TestARequestIsWrittenAnewWithoutWhatWasNotRead(t *testing.T) {
	r, err := ReadRequest([]byte(`{"jsonrpc":"2.0","id":1,"Method":"x","method":"tools/call","params":{"Name":"x","name":"a","arguments":{"n":12345678901234567890},"task":{},"_meta":{` + validMeta + `{}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.ReadParams(); err != nil {
		t.Fatal(err)
	}
	want := `{"jsonrpc":"2.0","id":"n","method":"tools/call","params":{"name":"a","arguments":{"n":12345678901234567890},"_meta":{` + validMeta + `{}}}}`
	if got, err := r.Body([]byte(`"n"`)); err != nil || string(got) != want {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
}

const validMeta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":`

func TestReadParamsChecksWhatEveryRequestDeclares(t *testing.T) {
	for name, tc := range map[string]struct{ params, want string }{
		"none":                     {``, "params must be an object"},
		"null":                     {`null`, "params must be an object"},
		"an array":                 {`[1]`, "params must be an object"},
		"no _meta":                 {`{}`, "params._meta must be an object"},
		"null _meta":               {`{"_meta":null}`, "params._meta must be an object"},
		"no version":               {`{"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}}`, MetaProtocolVersion},
		"number as version":        {`{"_meta":{"io.modelcontextprotocol/protocolVersion":1,"io.modelcontextprotocol/clientCapabilities":{}}}`, MetaProtocolVersion},
		"no capabilities":          {`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`, MetaClientCapabilities},
		"null capabilities":        {`{"_meta":{` + validMeta + `null}}`, MetaClientCapabilities},
		"list of extensions":       {`{"_meta":{` + validMeta + `{"extensions":["io.modelcontextprotocol/tasks"]}}}`, MetaClientCapabilities},
		"object as progress token": {`{"_meta":{` + validMeta + `{},"progressToken":{}}}`, "progressToken"},
		"long progress token":      {`{"_meta":{` + validMeta + `{},"progressToken":"` + strings.Repeat("x", 2000) + `"}}`, "progressToken"},
		"the task twice":           {`{"taskId":"a","taskId":"b","_meta":{` + validMeta + `{}}}`, "twice"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Request{params: json.RawMessage(tc.params)}
			if err := r.ReadParams(); err == nil || err.Code != CodeInvalidParams || !strings.Contains(err.Message, tc.want) {
				t.Errorf("got %+v, want %q", err, tc.want)
			}
		})
	}
}

func TestTheExtensionIsDeclaredByAnObject(t *testing.T) {
	for capabilities, want := range map[string]bool{
		`{}`:                  false,
		`{"extensions":{}}`:   false,
		`{"extensions":null}`: false,
		`{"extensions":{"io.modelcontextprotocol/tasks":null}}`:    false,
		`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`:      true,
		`{"extensions":{"io.modelcontextprotocol/tasks":{"a":1}}}`: true,
		`{"Extensions":{"io.modelcontextprotocol/tasks":{}}}`:      false,
		`{"tasks":{"cancel":{}}}`:                                  false,
	} {
		r := &Request{params: json.RawMessage(`{"taskId":7,"_meta":{` + validMeta + capabilities + `,"progressToken":12345678901234567890}}`)}
		if err := r.ReadParams(); err != nil || r.Params.Meta.Tasks != want {
			t.Errorf("%s: got %v, %v", capabilities, r.Params.Meta.Tasks, err)
		}
		if string(r.Params.Meta.ProgressToken) != "12345678901234567890" || string(r.Params.TaskID) != "7" {
			t.Errorf("%s: got %+v", capabilities, r.Params)
		}
	}
}

func TestText(t *testing.T) {
	for raw, want := range map[string]string{`"abc"`: "abc", `"a\n\u00e9\""`: "a\né\"", `""`: ""} {
		if got, ok := Text(json.RawMessage(raw)); !ok || got != want {
			t.Errorf("%s: got %q, %v", raw, got, ok)
		}
	}
	for _, raw := range []string{``, `7`, `null`, `{"a":"b"}`, `["a"]`} {
		if got, ok := Text(json.RawMessage(raw)); ok {
			t.Errorf("%s: got %q", raw, got)
		}
	}
}

func TestDecodeHeader(t *testing.T) {
	for value, want := range map[string]string{
		"plain": "plain", "": "", "=?base64?aGVsbG8=?=": "hello", "=?base64?8J+YgA==?=": "😀", "=?base64?unfinished": "=?base64?unfinished",
		"=?BASE64?aGVsbG8=?=": "=?BASE64?aGVsbG8=?=",
	} {
		if got, ok := DecodeHeader(value); !ok || got != want {
			t.Errorf("%q: got %q, %v", value, got, ok)
		}
	}
	if got, ok := DecodeHeader("=?base64?***?="); ok {
		t.Errorf("got %q", got)
	}
}

func FuzzReadRequest(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"a","_meta":{` + validMeta + `{}}}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"\ud800","method":"tools/call","params":{"arguments":[[]],"_meta":{"progressToken":-}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := ReadRequest(body)
		if err != nil {
			if !json.Valid(ErrorResponse(r.ID, err)) {
				t.Errorf("the error for %q is no JSON", body)
			}
			return
		}
		_ = r.ReadParams()
		if !r.IsNotification() {
			if anew, err := r.Body(r.ID); err != nil || !json.Valid(anew) {
				t.Errorf("%q is written anew as %q, %v", body, anew, err)
			}
		}
	})
}
