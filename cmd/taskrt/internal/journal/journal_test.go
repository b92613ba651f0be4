package journal

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/mcptask/mcptask/cmd/taskrt/internal/report"
)

func TestSaveAndOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, state, err := Open(path)
	if err != nil || !reflect.DeepEqual(state, &State{}) {
		t.Fatalf("%+v %v", state, err)
	}
	state = &State{
		Sequence: 7, Progress: &report.Progress{Current: "1"}, StateName: "s", ResultFile: "h",
		Asks:        []*Ask{{ID: "i", Questions: []report.InputRequest{{Key: "k-1", Method: "m", Params: json.RawMessage(`{}`)}}, Stored: true}},
		NextOutcome: &Outcome{Outcome: "result", Result: json.RawMessage(`{"content":[]}`)},
	}
	if err := j.Save(state); err != nil {
		t.Fatal(err)
	}
	_, again, err := Open(path)
	if err != nil || !reflect.DeepEqual(again, state) {
		t.Errorf("%+v %v, want %+v", again, err, state)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
}

func TestUnreadable(t *testing.T) {
	for _, text := range []string{"", "{", `{"sequence":-1}`, `{"asks":[null]}`, `{"asks":[{"id":"i","questions":[]}]}`, `{"asks":[{"id":"i","questions":[{}]}]}`} {
		if state, err := Decode([]byte(text)); err == nil {
			t.Errorf("%s: %+v", text, state)
		}
	}
	if err := (&Journal{path: filepath.Join(t.TempDir(), "absent", "journal")}).Save(&State{}); err == nil {
		t.Error("saved into a folder that is not there")
	}
}

func FuzzDecode(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		state, err := Decode(data)
		if err != nil {
			return
		}
		state.Questions()
		encoded, err := json.Marshal(state)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(encoded); err != nil && len(encoded) <= maxBytes {
			t.Errorf("%s: %v", encoded, err)
		}
	})
}
