package fit

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// kept is a result after it was made to fit.
type kept struct {
	*Kept
	Meta              json.RawMessage   `json:"_meta"`
	Content           []json.RawMessage `json:"content"`
	IsErrorField      bool              `json:"isError"`
	StructuredContent json.RawMessage   `json:"structuredContent"`
}

func fitted(t *testing.T, raw string) kept {
	t.Helper()
	return fittedIn(t, raw, MaxInline)
}

func fittedIn(t *testing.T, raw string, limit int) kept {
	t.Helper()
	r, err := Result(json.RawMessage(raw), limit)
	if err != nil {
		t.Fatal(err)
	}
	k := kept{Kept: r}
	if err := json.Unmarshal(r.Raw, &k); err != nil {
		t.Fatal(err)
	}
	if len(r.Raw) > limit || r.Size != int64(len(raw)) || k.Content == nil || k.IsErrorField != r.IsError {
		t.Errorf("%d bytes are kept of %d, said to be %d", len(r.Raw), len(raw), r.Size)
	}
	return k
}

func (k kept) texts() []string {
	var all []string
	for _, block := range k.Content {
		if text, ok := textOf(block); ok {
			all = append(all, text)
		}
	}
	return all
}

func text(s string) string {
	raw, _ := json.Marshal(textBlock{Text: s, Type: "text"})
	return string(raw)
}

func TestWhatFitsIsKeptWhole(t *testing.T) {
	for _, raw := range []string{
		`{"content":[]}`,
		`{"_meta":{"a":1},"content":[{"text":"<&>","type":"text"}],"isError":true,"structuredContent":{"n":1}}`,
		`{"content":[{"annotations":{"audience":["user"]},"text":"x","type":"text"},{"data":"AAAA","mimeType":"image/png","type":"image"}]}`,
		`{"content":[` + text(strings.Repeat("x", MaxInline-len(`{"content":[{"text":"","type":"text"}]}`))) + `]}`,
	} {
		if k := fitted(t, raw); string(k.Raw) != raw || k.Truncated {
			t.Errorf("of %.200s is kept %.200s, truncated: %v", raw, k.Raw, k.Truncated)
		}
	}
	if k := fitted(t, `{"resultType":"complete"}`); string(k.Raw) != `{"content":[]}` {
		t.Errorf("kept is %s", k.Raw)
	}
	if _, err := Result([]byte(`[]`), MaxInline); err == nil {
		t.Error("an array is taken for a result")
	}
}

func TestTheEndOfTextIsKept(t *testing.T) {
	for name, s := range map[string]string{
		"plain":        strings.Repeat("0123456789\n", 50_000) + "the end",
		"one too much": strings.Repeat("x", MaxInline) + "the end",
		"quotes":       strings.Repeat(`"\`, 20_000) + "the end",
		"controls":     strings.Repeat("\x00\x1f\u2028", 20_000) + "the end",
		"wide":         strings.Repeat("é€😀", 20_000) + "the end",
	} {
		t.Run(name, func(t *testing.T) {
			raw := `{"content":[` + text("first") + `,` + text(s) + `],"isError":true}`
			k := fitted(t, raw)
			texts := k.texts()
			if !k.Truncated || !k.Kept.IsError || len(texts) != 2 || !strings.HasSuffix(s, texts[1]) || !strings.HasSuffix(texts[1], "the end") {
				t.Fatalf("truncated: %v, texts %.300q", k.Truncated, texts)
			}
			want := fmt.Sprintf("[The result had %d bytes, more than the 16384 that are kept. Of the text only the end is kept. %s]", len(raw), Advice)
			if texts[0] != want {
				t.Errorf("it says %q", texts[0])
			}
			if len(k.Raw) < MaxInline-noticeBytes-16 {
				t.Errorf("only %d bytes are kept", len(k.Raw))
			}
		})
	}
}

func TestTheLastTextsAreKeptInTheirOrder(t *testing.T) {
	k := fitted(t, `{"content":[`+text(strings.Repeat("a", 9000))+`,`+text(strings.Repeat("b", 9000))+`,`+text("c")+`]}`)
	texts := k.texts()
	if len(texts) != 4 || strings.Trim(texts[1], "a") != "" || texts[2] != strings.Repeat("b", 9000) || texts[3] != "c" {
		t.Errorf("kept is %.400q", texts)
	}
}

func TestWhatIsOfUseOnlyWholeIsKeptOrLeftOut(t *testing.T) {
	structured := `{"items":"` + strings.Repeat("y", 10_000) + `"}`
	k := fitted(t, `{"content":[`+text(strings.Repeat("x", 100_000))+`],"structuredContent":`+structured+`}`)
	if string(k.StructuredContent) != structured || !k.Truncated || len(k.texts()) != 2 {
		t.Errorf("kept is %.300s", k.Raw)
	}

	image := func(n int) string {
		return `{"data":"` + strings.Repeat("A", n) + `","mimeType":"image/png","type":"image"}`
	}
	k = fitted(t, `{"_meta":{"m":"`+strings.Repeat("z", 2000)+`"},"content":[`+image(20_000)+`,`+text("hello")+`,`+image(400)+`],"structuredContent":{"items":"`+strings.Repeat("y", 20_000)+`"}}`)
	texts := k.texts()
	want := "Left out: _meta (2008 bytes), structuredContent (20012 bytes), image image/png content (20049 bytes)."
	if k.StructuredContent != nil || k.Meta != nil || len(k.Content) != 3 || len(texts) != 2 || texts[1] != "hello" || !strings.Contains(texts[0], want) {
		t.Errorf("kept is %.600s", k.Raw)
	}
	if string(k.Content[2]) != image(400) {
		t.Errorf("the small image is %.100s", k.Content[2])
	}
}

func TestWhatIsSaidIsBounded(t *testing.T) {
	block := `{"resource":{"blob":"` + strings.Repeat("A", 16_000) + `","mimeType":"` + strings.Repeat(`\"\n€`, 500) + `","uri":"x:y"},"type":"resource"}`
	k := fitted(t, `{"content":[`+strings.Repeat(block+",", 29)+block+`]}`)
	if texts := k.texts(); len(texts) != 1 || !strings.Contains(texts[0], "and 25 more") || len(texts[0]) > noticeBytes-100 || strings.ContainsAny(texts[0], "\"\n") {
		t.Errorf("it says %q", texts)
	}
}

func TestASmallLimitHoldsToo(t *testing.T) {
	k := fittedIn(t, `{"content":[`+text(strings.Repeat("x", 5000)+"the end")+`]}`, 1200)
	if texts := k.texts(); len(texts) != 2 || !strings.HasSuffix(texts[1], "the end") {
		t.Errorf("kept is %q", texts)
	}
	fittedIn(t, `{"content":[`+strings.Repeat(`{"data":"`+strings.Repeat("A", 2000)+`","mimeType":"application/vnd.a-long-name.of.something","type":"image"},`, 9)+text("x")+`]}`, 1024)
}

func TestStructuredContentIsNotKeptTwice(t *testing.T) {
	for name, tc := range map[string]struct {
		block string
		twice bool
	}{
		"compact":             {text(`{"a":[1,"x y"],"b":{"c":null}}`), true},
		"indented":            {text("{\n  \"a\": [\n 1, \"x y\"],\r\n \"b\": {\"c\": null}\n}\n"), true},
		"other white space":   {text(`{"a":[1,"x  y"],"b":{"c":null}}`), false},
		"other value":         {text(`{"a":[2,"x y"],"b":{"c":null}}`), false},
		"something after it":  {text(`{"a":[1,"x y"],"b":{"c":null}} {}`), false},
		"words":               {text("done"), false},
		"with annotations":    {`{"annotations":{"audience":["user"]},"text":"{\"a\":[1,\"x y\"],\"b\":{\"c\":null}}","type":"text"}`, false},
		"digits that run on":  {text(`{"a":[1 2,"x y"],"b":{"c":null}}`), false},
		"a part of the value": {text(`{"a":[1,"x y"]`), false},
	} {
		k := fitted(t, `{"content":[`+text("first")+`,`+tc.block+`],"structuredContent":{"a":[1,"x y"],"b":{"c":null}}}`)
		if got := len(k.Content) == 1; got != tc.twice || k.StructuredContent == nil || k.Truncated {
			t.Errorf("%s: kept is %s", name, k.Raw)
		}
	}
}
