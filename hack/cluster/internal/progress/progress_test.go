package progress

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// In a log the moving line comes now and then, and a terminal's control
// sequences never.
func TestLog(t *testing.T) {
	var out bytes.Buffer
	r := &Reporter{out: &out, terminal: -1, start: time.Now(), last: time.Now()}
	for range 100 {
		r.Movingf("package %d", 1)
	}
	if out.Len() > 0 {
		t.Errorf("wrote %q at once", out.String())
	}
	r.last = time.Now().Add(-quietInterval)
	r.Movingf("package %d", 2)
	r.Movingf("package %d", 3)
	r.Linef("built")
	r.Done()
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 3 || !strings.HasSuffix(lines[0], "  package 2") || !strings.HasSuffix(lines[1], "  built") || strings.Contains(out.String(), "\x1b") {
		t.Errorf("wrote %q", out.String())
	}
}

func TestTerminal(t *testing.T) {
	var out bytes.Buffer
	r := &Reporter{out: &out, terminal: 1 << 20, start: time.Now()} // no such descriptor: no width
	r.Movingf("one")
	r.Movingf("two")
	r.Linef("three")
	if got := out.String(); strings.Count(got, "\r\x1b[K") != 2 || strings.Count(got, "\n") != 1 {
		t.Errorf("wrote %q", got)
	}
}
