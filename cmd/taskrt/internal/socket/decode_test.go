package socket

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mcptask/mcptask/cmd/taskrt/internal/report"
	"github.com/mcptask/mcptask/cmd/taskrt/internal/result"
)

func TestBodiesThatAreWrong(t *testing.T) {
	decode := map[string]func([]byte) error{
		"progress":  func(b []byte) error { _, err := decodeProgress(b); return err },
		"state":     func(b []byte) error { _, err := decodeState(b); return err },
		"questions": func(b []byte) error { _, err := decodeQuestions(b); return err },
		"fail":      func(b []byte) error { _, err := decodeFail(b); return err },
	}
	for _, test := range []struct{ what, body, words string }{
		{"progress", `{"current":3,"total":"10","message":"m"}`, ""},
		{"progress", ``, "the body is empty"},
		{"progress", `{}`, "current is missing"},
		{"progress", `{"current":-1}`, "current must be a number from 0"},
		{"progress", `{"current":1e400}`, "current must be a number"},
		{"progress", `{"current":1,"max":2}`, `unknown field "max"`},
		{"progress", `{"current":1}{}`, "there is more after the JSON object"},
		{"state", `{"name":"x"}`, ""},
		{"state", `{}`, "name is missing"},
		{"state", `[]`, "the body is wrong: it must be a JSON object"},
		{"state", `{"name":7}`, "the body is wrong: name must not be a JSON number"},
		{"state", `{"name":"a\u001bb"}`, "name must be plain text in one line, without the character U+001B"},
		{"state", `{"name":"a\u2066b"}`, "without the character U+2066"},
		{"questions", `{"questions":[]}`, "questions is missing"},
		{"questions", `{"id":"` + strings.Repeat("x", 129) + `","questions":[{}]}`, "id has more than 128 bytes"},
		{"fail", `{"code":-32000,"message":"m","data":null}`, ""},
		{"fail", `{"code":-32000,"message":"m","data":[1]}`, "data must be a JSON object"},
		{"fail", `{"code":-32000}`, "message is missing"},
		{"fail", `{"message":"m"}`, "code is missing"},
		{"fail", `{"code":0,"message":"m"}`, "code must not be 0"},
		{"fail", `{"code":99999999999,"message":"m"}`, "code must be a whole number from -2147483648 to 2147483647"},
		{"fail", `{"code":"1","message":"m"}`, "code must not be a JSON string"},
		{"fail", `{"code":-32050,"message":"m"}`, "code -32050 is reserved by MCP"},
		{"fail", `{"code":1,"message":"` + strings.Repeat("x", 4097) + `"}`, "message has 4097 characters"},
	} {
		err := decode[test.what]([]byte(test.body))
		if test.words == "" && err != nil || test.words != "" && (err == nil || !strings.Contains(err.Error(), test.words)) {
			t.Errorf("%s %.80s: %v, want %q", test.what, test.body, err, test.words)
		}
	}
}

func FuzzBodies(f *testing.F) {
	f.Fuzz(func(t *testing.T, body []byte) {
		if p, err := decodeProgress(body); err == nil {
			if !decimal.MatchString(p.Current) || p.Total != "" && !decimal.MatchString(p.Total) || utf8.RuneCountInString(p.Message) > report.MaxMessage {
				t.Errorf("progress %+v", p)
			}
		}
		if name, err := decodeState(body); err == nil && (name == "" || utf8.RuneCountInString(name) > report.MaxStateName) {
			t.Errorf("state %q", name)
		}
		if q, err := decodeQuestions(body); err == nil {
			for i := range q.Questions {
				_ = q.Questions[i].Check([]string{"form", "url"}) // must not panic
			}
		}
		if e, err := decodeFail(body); err == nil && e.Message == "" {
			t.Errorf("error %+v", e)
		}
		if made, err := result.FromJSON(body); err == nil && !json.Valid(made) {
			t.Errorf("result %s", made)
		}
	})
}
