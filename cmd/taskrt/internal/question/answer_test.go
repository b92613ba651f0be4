package question

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

const everything = `{"mode":"form","message":"m","requestedSchema":{"type":"object","required":["sure"],"properties":{
	"sure":{"type":"boolean"},"name":{"type":"string","minLength":2,"maxLength":3},"size":{"type":"string","enum":["s","m"]},
	"color":{"type":"string","oneOf":[{"const":"r","title":"Red"}]},"n":{"type":"integer","minimum":1,"maximum":5},"x":{"type":"number"},
	"some":{"type":"array","minItems":1,"maxItems":2,"items":{"type":"string","enum":["a","b"]}},
	"more":{"type":"array","items":{"anyOf":[{"const":"a","title":"A"}]}}}}}`

func TestAnswers(t *testing.T) {
	accept := func(content string) string { return `{"action":"accept","content":` + content + `}` }
	with := func(member string) string { return accept(`{"sure":true,` + member + `}`) }
	for response, words := range map[string]string{
		`{"action":"decline"}`:              "",
		`{"action":"cancel","content":7}`:   "",
		accept(`{"sure":false}`):            "",
		with(`"name":"äß","size":"s"`):      "",
		with(`"color":"r","n":5.0,"x":1.5`): "",
		with(`"some":["a","b"],"more":[]`):  "",
		with(`"other":"x"`):                 "",
		`null`:                              "response must be a JSON object",
		`[]`:                                "response must be a JSON object",
		`{}`:                                "action must be accept, decline or cancel",
		`{"action":7}`:                      "action must be accept, decline or cancel",
		`{"action":"Accept"}`:               "action must be accept, decline or cancel",
		`{"Action":"accept"}`:               "action must be accept, decline or cancel",
		`{"action":"accept"}`:               "content is missing",
		accept(`null`):                      "content must be a JSON object",
		accept(`"yes"`):                     "content must be a JSON object",
		accept(`{}`):                        "content.sure is missing",
		accept(`{"sure":"yes"}`):            "content.sure must be true or false",
		accept(`{"sure":null}`):             "content.sure must be true or false",
		with(`"name":7`):                    "content.name must be a string",
		with(`"name":null`):                 "content.name must be a string",
		with(`"name":"ä"`):                  "content.name must have at least 2 characters, not 1",
		with(`"name":"four"`):               "content.name must have at most 3 characters, not 4",
		with(`"size":"xl"`):                 "content.size must be one of the choices",
		with(`"color":"Red"`):               "content.color must be one of the choices",
		with(`"n":"3"`):                     "content.n must be a number",
		with(`"n":1.5`):                     "content.n must be a whole number",
		with(`"n":0`):                       "content.n must be at least 1",
		with(`"n":6`):                       "content.n must be at most 5",
		with(`"x":true`):                    "content.x must be a number",
		with(`"some":"a"`):                  "content.some must be an array of strings",
		with(`"some":null`):                 "content.some must be an array of strings",
		with(`"some":["a",null]`):           "content.some must be an array of strings",
		with(`"some":["a","c"]`):            "content.some must have only the choices; its item 1",
		with(`"some":[]`):                   "content.some must have at least 1 choices",
		with(`"some":["a","a","b"]`):        "content.some must have at most 2 choices",
		with(`"more":["b"]`):                "content.more must have only the choices",
	} {
		answer, err := ReadAnswer(json.RawMessage(everything), json.RawMessage(response))
		check(t, response, err, words)
		if err == nil && (answer.Content != nil) != (answer.Action == Accept) {
			t.Errorf("%s: %+v", response, answer)
		}
		// The bridge judges the answers that come through it: what it takes, the work takes.
		q := v1alpha1.InputRequest{Key: "k", Method: Method}
		q.Params.Raw = []byte(everything)
		if refused := wire.CheckResponse(q, json.RawMessage(response), ""); (refused == nil) != (words == "") {
			t.Errorf("%s: the bridge says %+v", response, refused)
		}
	}
}

func TestAnswersToAPage(t *testing.T) {
	params := json.RawMessage(`{"mode":"url","message":"m","url":"https://x.example"}`)
	for _, action := range []string{Accept, Decline, Cancel} {
		answer, err := ReadAnswer(params, json.RawMessage(`{"action":"`+action+`","content":{"secret":"x"}}`))
		if err != nil || answer.Action != action || answer.Content != nil {
			t.Errorf("%s: %+v, %v", action, answer, err)
		}
	}
}

// What is refused is named, and not in Go's words.
func TestWordsAboutAnswersArePlain(t *testing.T) {
	for _, response := range []string{`7`, `{"action":{}}`, `{"action":"accept","content":[7]}`} {
		if _, err := ReadAnswer(json.RawMessage(everything), json.RawMessage(response)); err == nil || strings.Contains(err.Error(), "json:") {
			t.Errorf("%s: %v", response, err)
		}
	}
}
