package report

import "testing"

func TestDecodeAnswers(t *testing.T) {
	for text, good := range map[string]bool{
		`{"count":1,"answers":[{"key":"k-1","response":{"action":"accept"}}]}`: true,
		`{"count":0}`:                             true,
		`{"count":0,"answers":[{"key":"k"}]}`:     false,
		`{"count":1,"answers":[{"response":{}}]}`: false,
		`nonsense`: false,
	} {
		if _, err := DecodeAnswers([]byte(text)); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzDecodeAnswers(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		answers, err := DecodeAnswers(data)
		if err != nil {
			return
		}
		for _, a := range answers.Answers {
			if a.Key == "" {
				t.Errorf("%s: no key", a.Response)
			}
		}
	})
}
