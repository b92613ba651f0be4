package result

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/mcptask/mcptask/api/report/fit"
)

// FuzzTake: whatever a program writes as its result, small or large, it is taken as an object that every client can read, or
// refused in words; and both ways of taking it agree.
func FuzzTake(f *testing.F) {
	for _, seed := range []string{
		`{"a":1}`, `{"content":[]}`, `{"content":[{"type":"text","text":"{\"a\":1}"}],"structuredContent":{"a":1}}`, `{"content":[{"type":"text","text":"a"},{"type":"text","text":"{\"a\":1}"}],"structuredContent":{"a":1},"isError":true}`,
		`{"content":[{"type":"resource","resource":{"uri":"u","blob":"AA=="}}],"_meta":{}}`, `{"\u0063ontent":[],"content":3}`, `{"content":[7]}`, `{"content":[{}],"isError":"no"}`, `[]`, `{`, ``, "{\"a\":\"\xff\"}", " {} \n", `{} {}`, "\xef\xbb\xbf{}",
		`{"content":[ {"type":"text","text":"1" } , {"type":"image","data":"AA==","mimeType":"image/png"}],"x":[[[{"y":"]}"}]]]}`,
	} {
		f.Add([]byte(seed))
	}
	folder := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		spool := &Spool{Folder: folder, Limit: 1 << 20}
		small, err := spool.Take(bytes.NewReader(text))
		// The same behind so much white space that it goes through a file.
		large, errOfLarge := spool.Take(bytes.NewReader(append(bytes.Repeat([]byte(" "), fit.MaxInline+1), text...)))
		if small.File != nil || len(text) > fit.MaxInline {
			return
		}
		if (err == nil) != (errOfLarge == nil) {
			t.Fatalf("%q: %v when it is small, %v when it is large", text, err, errOfLarge)
		}
		if err != nil {
			return
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(small.Result, &object); err != nil || !strings.HasPrefix(string(object["content"]), "[") {
			t.Fatalf("%q is taken as %s: %v", text, small.Result, err)
		}
		if large.File == nil {
			t.Fatalf("%q is no file: %+v", text, large)
		}
		stored, err := os.ReadFile(large.File.Path)
		if err != nil {
			t.Fatal(err)
		}
		part := stored[large.File.Offset : large.File.Offset+large.File.Bytes]
		var same map[string]json.RawMessage
		if err := json.Unmarshal(part, &same); err != nil || hashOf(part) != large.File.SHA256 || !strings.HasPrefix(string(same["content"]), "[") {
			t.Fatalf("%q is stored as %q: %v", text, part, err)
		}
		if isError := string(object["isError"]) == "true"; isError != large.File.IsError {
			t.Fatalf("%q is an error: %v", text, large.File.IsError)
		}
		if err := spool.Clear(); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzMembers: an object and an array are cut where the library cuts them.
func FuzzMembers(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":1,"a":"\\\"","b":[{}]}`, `{"\u0061":null , "x" :-1.5e3}`, `{"":{"":""}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var wanted map[string]json.RawMessage
		object := bytes.TrimSpace(text)
		if json.Unmarshal(object, &wanted) != nil || wanted == nil {
			return
		}
		found := members(object)
		if len(found) != len(wanted) {
			t.Fatalf("%q has %d members, not %d", object, len(found), len(wanted))
		}
		for name, at := range found {
			if string(at.of(object)) != string(wanted[name]) {
				t.Fatalf("%q: %q is %q, not %q", object, name, at.of(object), wanted[name])
			}
			var list []json.RawMessage
			if wanted[name][0] != '[' || json.Unmarshal(wanted[name], &list) != nil {
				continue
			}
			pieces := elements(at.of(object))
			if len(pieces) != len(list) {
				t.Fatalf("%q has %d elements, not %d", wanted[name], len(pieces), len(list))
			}
			for i, piece := range pieces {
				if string(piece.of(at.of(object))) != string(list[i]) {
					t.Fatalf("%q: element %d is %q", wanted[name], i, piece.of(at.of(object)))
				}
			}
		}
	})
}
