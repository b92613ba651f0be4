package apikey

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcptask/mcptask/mcpbridge/auth"
)

var (
	ci   = auth.KeyPrefix + strings.Repeat("c", 43)
	ops  = auth.KeyPrefix + strings.Repeat("o", 43)
	none = auth.KeyPrefix + strings.Repeat("n", 43)
)

func describe(key, rest string) string {
	return fmt.Sprintf("sha256: %x\n%s", sha256.Sum256([]byte(key)), rest)
}

type fixture struct {
	*Keys
	folder string
	log    bytes.Buffer
	time   time.Time
}

func newFixture(t *testing.T, files map[string]string) *fixture {
	t.Helper()
	f := &fixture{folder: t.TempDir(), time: time.Now()}
	for name, text := range files {
		f.write(t, name, text)
	}
	var err error
	if f.Keys, err = Load(f.folder, slog.New(slog.NewTextHandler(&f.log, nil))); err != nil {
		t.Fatal(err)
	}
	f.now = func() time.Time { return f.time }
	return f
}

func (f *fixture) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(f.folder, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) show(t *testing.T, key, namespace string) (auth.Principal, error) {
	return f.Authenticate(t.Context(), auth.Request{Header: http.Header{"Authorization": {"Bearer " + key}}, Namespace: namespace})
}

func TestKeysNameTheirCallers(t *testing.T) {
	f := newFixture(t, map[string]string{
		"ci":  describe(ci, "subject: ci\ngroups: [bots, builders]\nnamespaces: [team, second]\n"),
		"ops": describe(ops, "subject: ops\nnamespaces: ['*']\n"),
	})
	principal, err := f.show(t, ci, "team")
	if err != nil || principal.String() != "apikey:ci" || principal.User != "apikey:ci" || fmt.Sprint(principal.Groups) != "[apikey:bots apikey:builders]" {
		t.Errorf("%+v, %v", principal, err)
	}
	if principal, err := f.show(t, ops, "anywhere"); err != nil || principal.Subject != "ops" || principal.Groups != nil {
		t.Errorf("%+v, %v", principal, err)
	}
	for name, refused := range map[string][2]string{
		"another namespace": {ci, "third"}, "no namespace": {ci, ""}, "an unknown key": {none, "team"}, "a part of a key": {ci[:len(ci)-1], "team"},
		"a key and more": {ci + "c", "team"}, "too short": {auth.KeyPrefix, "team"}, "the hash of a key": {auth.KeyPrefix + fmt.Sprintf("%x", sha256.Sum256([]byte(ci))), "team"},
	} {
		if _, err := f.show(t, refused[0], refused[1]); !errors.Is(err, auth.ErrRefused) || strings.Contains(err.Error(), refused[0][8:]) && len(refused[0]) > 8 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKeysAreReloaded(t *testing.T) {
	f := newFixture(t, map[string]string{"ci": describe(ci, "subject: ci\nnamespaces: [team]\n")})
	if err := os.Remove(filepath.Join(f.folder, "ci")); err != nil {
		t.Fatal(err)
	}
	f.write(t, "ops", describe(ops, "subject: ops\nnamespaces: [team]\n"))
	if _, err := f.show(t, ci, "team"); err != nil {
		t.Errorf("at once: %v", err)
	}
	f.time = f.time.Add(reloadAfter + time.Second)
	if _, err := f.show(t, ci, "team"); !errors.Is(err, auth.ErrRefused) {
		t.Errorf("a key that was taken away: %v", err)
	}
	if _, err := f.show(t, ops, "team"); err != nil {
		t.Errorf("a key that was added: %v", err)
	}
	// A folder that cannot be read for a moment takes nobody's key away.
	if err := os.Rename(f.folder, f.folder+"-away"); err != nil {
		t.Fatal(err)
	}
	f.time = f.time.Add(reloadAfter + time.Second)
	if _, err := f.show(t, ops, "team"); err != nil || !strings.Contains(f.log.String(), "cannot be read") {
		t.Errorf("%v with %s", err, f.log.String())
	}
}

func TestFilesThatCannotBeUsedAreNamed(t *testing.T) {
	for name, tc := range map[string]struct{ file, words string }{
		"the key itself":       {ci, "must be YAML"},
		"an unknown field":     {describe(ci, "subject: ci\nnamespaces: [team]\nnamespace: x\n"), "must be YAML"},
		"no hash":              {"subject: ci\nnamespaces: [team]\n", "sha256"},
		"the key for its hash": {"sha256: " + ci + "\nsubject: ci\nnamespaces: [team]\n", "sha256"},
		"no subject":           {describe(ci, "namespaces: [team]\n"), "subject"},
		"a blank subject":      {describe(ci, "subject: ' '\nnamespaces: [team]\n"), "subject"},
		"nowhere":              {describe(ci, "subject: ci\n"), "namespaces"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, map[string]string{"bad": tc.file, "ops": describe(ops, "subject: ops\nnamespaces: [team]\n")})
			if log := f.log.String(); !strings.Contains(log, "bad: ") || !strings.Contains(log, tc.words) || strings.Contains(log, ci) {
				t.Errorf("the log is %s", log)
			}
			if _, err := f.show(t, ci, "team"); !errors.Is(err, auth.ErrRefused) {
				t.Errorf("the key works: %v", err)
			}
			if _, err := f.show(t, ops, "team"); err != nil {
				t.Errorf("the other key does not: %v", err)
			}
		})
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none"), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a folder that is not there is no error")
	}
}

func TestOneKeyForTwoIsNobodys(t *testing.T) {
	f := newFixture(t, map[string]string{
		"a": describe(ci, "subject: a\nnamespaces: [team]\n"), "b": describe(ci, "subject: b\nnamespaces: [team]\n"),
	})
	if _, err := f.show(t, ci, "team"); !errors.Is(err, auth.ErrRefused) || !strings.Contains(f.log.String(), "another entry") {
		t.Errorf("%v with %s", err, f.log.String())
	}
}
