package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcptask/mcptask/hack/cluster/internal/progress"
)

func TestUserNamespace(t *testing.T) {
	if !isInitialUserNamespace("         0          0 4294967295\n") {
		t.Error("the machine's own root is not known")
	}
	for _, mapping := range []string{"         0       1000          1\n", "0 100000 65536\n", "0 1000 1\n1 100000 65536\n", ""} {
		if isInitialUserNamespace(mapping) {
			t.Errorf("%q was taken for the machine's own root", mapping)
		}
	}
}

func TestSpace(t *testing.T) {
	below := filepath.Join(t.TempDir(), "not", "there", "yet")
	if err := CheckSpace(below, 1); err != nil {
		t.Error(err)
	}
	if err := CheckSpace(below, 1<<62); err == nil || !strings.Contains(err.Error(), "GiB free; this needs about") {
		t.Error(err)
	}
}

func TestMissingPackages(t *testing.T) {
	there := func() bool { return true }
	absent := func() bool { return false }
	t.Setenv("PATH", t.TempDir()) // neither apt-get nor anything else
	report := progress.New(os.Stderr)
	if err := Ensure(t.Context(), report, []Package{{"gcc", there}}); err != nil {
		t.Error(err)
	}
	err := Ensure(t.Context(), report, []Package{{"gcc", there}, {"libseccomp-dev", absent}, {"nftables", absent}})
	if err == nil || !strings.Contains(err.Error(), "apt-get install libseccomp-dev nftables (") {
		t.Error(err)
	}
	if staticLibrary("libc.a")() || command("no-such-command")() {
		t.Error("found what is not there")
	}
}
