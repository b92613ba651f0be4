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

// The program is built as for the image; the test's own binary is larger.
func TestMemory(t *testing.T) {
	program := filepath.Join(t.TempDir(), "taskrt")
	if out, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	p := newPod(t, fakeport.New(t))
	sidecar := p.start(program, "serve", "--token-file", p.port.TokenFile)
	if ready := p.start(program, "ready"); ready.wait() != 0 {
		t.Fatalf("ready: %s", ready.errOut.String())
	}
	p.task("progress", "1", "--total", "2", "half").want(0, "", "")
	for i := range 20 {
		noWait(p, strconv.Itoa(i))
	}
	p.task("result", "--text", strings.Repeat("x", 100<<10)).want(0, "", "")
	last := 0
	fakeport.Await(t, "the memory to be given back", func() bool {
		last = resident(t, sidecar.cmd.Process.Pid)
		return last <= maxResident
	})
	t.Logf("%d KiB resident", last)
}

// resident is VmRSS of a process, in KiB.
func resident(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		t.Fatalf("no VmRSS in %s", status)
	}
	kib, err := strconv.Atoi(fields[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib
}
