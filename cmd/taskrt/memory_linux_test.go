package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/mcptask/mcptask/cmd/taskrt/internal/fakeport"
)

// maxResident is what a sidecar may take of a node's memory: there is one for each task that runs.
const maxResident = 12 << 10 // KiB

// maxPeak is what the container may take, of which a mapped result can be given back at any time.
const maxPeak = 32 << 10 // KiB

// The program is built as for the image; the test's own binary is larger.
func TestMemory(t *testing.T) {
	program := filepath.Join(t.TempDir(), "taskrt")
	if out, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	p := newPod(t, fakeport.New(t), keeps8MB)
	sidecar := p.start(program, "serve", "--token-file", p.port.TokenFile)
	if ready := p.start(program, "ready"); ready.wait() != 0 {
		t.Fatalf("ready: %s", ready.errOut.String())
	}
	p.task("progress", "1", "--total", "2", "half").want(0, "", "")
	for i := range 20 {
		noWait(p, strconv.Itoa(i))
	}
	p.task("result", "--text", strings.Repeat("x", 100<<10)).want(0, "", "")
	// It says the same twice: the two are compared.
	half := `{"n":"` + strings.Repeat("x", 4_000_000) + `"}`
	p.write("large.json", `{"content":[{"type":"text","text":`+strconv.Quote(half)+`}],"structuredContent":`+half+`}`)
	p.task("result", "--json", p.path("large.json")).want(0, "", "")
	if peak := memory(t, sidecar.cmd.Process.Pid, "VmHWM:"); peak > maxPeak {
		t.Errorf("a result of 8 MB takes %d KiB for a moment", peak)
	} else {
		t.Logf("%d KiB at most", peak)
	}
	last := 0
	fakeport.Await(t, "the memory to be given back", func() bool {
		last = memory(t, sidecar.cmd.Process.Pid, "VmRSS:")
		return last <= maxResident
	})
	t.Logf("%d KiB resident", last)
}

// memory is a line of a process' status, in KiB.
func memory(t *testing.T, pid int, line string) int {
	t.Helper()
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), line)
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		t.Fatalf("no %s in %s", line, status)
	}
	kib, err := strconv.Atoi(fields[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib
}
