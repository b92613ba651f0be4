package seal

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mcptask/mcptask/api/v1alpha1"
)

func key(letter string) []byte { return bytes.Repeat([]byte(letter), 32) }

func keys(t *testing.T, all ...[]byte) *Keys {
	t.Helper()
	k, err := NewKeys(all...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

type value struct{ A string }

func TestOpenTakesWhatAnyReplicaSealed(t *testing.T) {
	text, err := keys(t, key("a")).Seal("state", value{"x"}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var got value
	if err := keys(t, key("a")).Open("state", text, &got); err != nil || got.A != "x" {
		t.Errorf("another replica reads %v, %v", got, err)
	}
	if err := keys(t, key("b"), key("a")).Open("state", text, &got); err != nil {
		t.Errorf("after a rotation: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	k := keys(t, key("a"))
	text, err := k.Seal("state", value{"x"}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := base64.RawURLEncoding.DecodeString(text)
	changed := bytes.Replace(raw, []byte(`"x"`), []byte(`"y"`), 1)
	for name, tc := range map[string]struct{ purpose, text string }{
		"another purpose": {"session", text},
		"a change":        {"state", base64.RawURLEncoding.EncodeToString(changed)},
		"nothing":         {"state", ""},
		"only a tag":      {"state", base64.RawURLEncoding.EncodeToString(raw[:32])},
		"no base64":       {"state", "*" + text},
		"too long":        {"state", string(bytes.Repeat([]byte("A"), maxSealedBytes+1))},
	} {
		if err := k.Open(tc.purpose, tc.text, &value{}); err != ErrInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := keys(t, key("b")).Open("state", text, &value{}); err == nil {
		t.Error("another key opens it")
	}
	k.now = func() time.Time { return time.Now().Add(time.Minute) }
	if err := k.Open("state", text, &value{}); err == nil {
		t.Error("it is open after its time")
	}
}

func TestTaskNames(t *testing.T) {
	k := keys(t, key("a"))
	name := k.TaskNames("team", "ann", "tool", "1")[0]
	if !v1alpha1.ValidTaskID(name) {
		t.Errorf("%q cannot be a task's name", name)
	}
	if again := keys(t, key("a")).TaskNames("team", "ann", "tool", "1")[0]; again != name {
		t.Error("another replica makes another name")
	}
	if moved := k.TaskNames("team", "annt", "ool", "1")[0]; moved == name {
		t.Error("two different calls have one name")
	}
	if rotated := keys(t, key("b"), key("a")).TaskNames("team", "ann", "tool", "1"); rotated[0] == name || rotated[1] != name {
		t.Errorf("after a rotation: %v, before: %s", rotated, name)
	}
}

func TestKeysOfAFolderAreReadAgain(t *testing.T) {
	folder := t.TempDir()
	write := func(name string, content []byte) {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := LoadKeys(folder); err == nil {
		t.Error("a folder without keys is accepted")
	}
	write("1", key("a"))
	k, err := LoadKeys(folder)
	if err != nil {
		t.Fatal(err)
	}
	old, _ := k.Seal("state", value{"x"}, time.Hour)
	write("2", key("b"))
	now := time.Now().Add(reloadAfter)
	k.now = func() time.Time { return now }
	if err := k.Open("state", old, &value{}); err != nil {
		t.Errorf("what the old key sealed: %v", err)
	}
	if fresh, _ := k.Seal("state", value{"x"}, time.Hour); keys(t, key("b")).Open("state", fresh, &value{}) != nil {
		t.Error("the newest key does not seal")
	}
	write("2", []byte("short"))
	now = now.Add(reloadAfter)
	if len(k.all()) != 2 {
		t.Error("a bad key takes the place of good ones")
	}
	if _, err := LoadKeys(folder); err == nil {
		t.Error("a short key is accepted")
	}
}
