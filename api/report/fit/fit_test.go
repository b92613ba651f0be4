package fit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

// kept is a result after it was made to fit.
type kept struct {
	*v1alpha1.TaskResult
	Meta              json.RawMessage   `json:"_meta"`
	Content           []json.RawMessage `json:"content"`
	IsError           bool              `json:"isError"`
	StructuredContent json.RawMessage   `json:"structuredContent"`
}

func fitted(t *testing.T, raw string) kept {
	t.Helper()
	r, err := Result(json.RawMessage(raw))
	if err != nil {
		t.Fatal(err)
	}
	k := kept{TaskResult: r}
	if err := json.Unmarshal(r.Inline.Raw, &k); err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256(r.Inline.Raw)
	if len(r.Inline.Raw) > MaxBytes || r.Size != int64(len(raw)) || r.SHA256 != hex.EncodeToString(hash[:]) || k.Content == nil {
		t.Errorf("%d bytes are kept of %d, said to be %d, with the hash %s", len(r.Inline.Raw), len(raw), r.Size, r.SHA256)
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
		`{"content":[` + text(strings.Repeat("x", MaxBytes-len(`{"content":[{"text":"","type":"text"}]}`))) + `]}`,
	} {
		if k := fitted(t, raw); string(k.Inline.Raw) != raw || k.Truncated {
			t.Errorf("of %.200s is kept %.200s, truncated: %v", raw, k.Inline.Raw, k.Truncated)
		}
	}
	if k := fitted(t, `{"resultType":"complete"}`); string(k.Inline.Raw) != `{"content":[]}` {
		t.Errorf("kept is %s", k.Inline.Raw)
	}
	if _, err := Result([]byte(`[]`)); err == nil {
		t.Error("an array is taken for a result")
	}
}

func TestTheEndOfTextIsKept(t *testing.T) {
	for name, s := range map[string]string{
		"plain":        strings.Repeat("0123456789\n", 50_000) + "the end",
		"one too much": strings.Repeat("x", MaxBytes) + "the end",
		"quotes":       strings.Repeat(`"\`, 20_000) + "the end",
		"controls":     strings.Repeat("\x00\x1f\u2028", 20_000) + "the end",
		"wide":         strings.Repeat("é€😀", 20_000) + "the end",
	} {
		t.Run(name, func(t *testing.T) {
			raw := `{"content":[` + text("first") + `,` + text(s) + `],"isError":true}`
			k := fitted(t, raw)
			texts := k.texts()
			if !k.Truncated || !k.IsError || len(texts) != 2 || !strings.HasSuffix(s, texts[1]) || !strings.HasSuffix(texts[1], "the end") {
				t.Fatalf("truncated: %v, texts %.300q", k.Truncated, texts)
			}
			want := fmt.Sprintf("[The result had %d bytes, more than the 16384 that are kept. Of the text only the end is kept.]", len(raw))
			if texts[0] != want {
				t.Errorf("it says %q", texts[0])
			}
			if len(k.Inline.Raw) < MaxBytes-noticeBytes-16 {
				t.Errorf("only %d bytes are kept", len(k.Inline.Raw))
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
		t.Errorf("kept is %.300s", k.Inline.Raw)
	}

	image := func(n int) string {
		return `{"data":"` + strings.Repeat("A", n) + `","mimeType":"image/png","type":"image"}`
	}
	k = fitted(t, `{"_meta":{"m":"`+strings.Repeat("z", 2000)+`"},"content":[`+image(20_000)+`,`+text("hello")+`,`+image(400)+`],"structuredContent":{"items":"`+strings.Repeat("y", 20_000)+`"}}`)
	texts := k.texts()
	want := "Left out: _meta (2008 bytes), structuredContent (20012 bytes), image image/png content (20049 bytes)."
	if k.StructuredContent != nil || k.Meta != nil || len(k.Content) != 3 || len(texts) != 2 || texts[1] != "hello" || !strings.Contains(texts[0], want) {
		t.Errorf("kept is %.600s", k.Inline.Raw)
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
