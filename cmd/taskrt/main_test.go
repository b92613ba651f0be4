package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mcptask/mcptask/cmd/taskrt/internal/fakeport"
)

// asProgram makes the test's own binary behave as taskrt.
const asProgram = "TASKRT_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(run(os.Args))
	}
	os.Exit(m.Run())
}

// pod is a Pod of a task: the folder that its containers share, and the processes in it.
type pod struct {
	t    *testing.T
	port *fakeport.Port
	root string
	env  []string
}

func newPod(t *testing.T, port *fakeport.Port, env ...string) *pod {
	t.Helper()
	// A Unix socket's path may have 107 bytes: the test's own folder may be too deep.
	root, err := os.MkdirTemp("", "mcptask")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(root); err != nil {
			t.Error(err)
		}
	})
	p := &pod{t: t, port: port, root: root}
	p.env = append([]string{
		asProgram + "=1", "MCPTASK_SOCKET=" + p.path("run/task.sock"), "MCPTASK_RUNTIME_URL=" + port.URL(),
		"MCPTASK_NAMESPACE=" + fakeport.Namespace, "MCPTASK_TASK_ID=" + fakeport.TaskID, "MCPTASK_ASKS=form,url",
	}, env...)
	return p
}

func (p *pod) path(name string) string { return filepath.Join(p.root, name) }

func (p *pod) write(name, content string) {
	p.t.Helper()
	if err := os.WriteFile(p.path(name), []byte(content), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// process is one that runs.
type process struct {
	t           *testing.T
	cmd         *exec.Cmd
	out, errOut bytes.Buffer
	done        chan struct{}
}

func (p *pod) start(program string, args ...string) *process {
	p.t.Helper()
	r := &process{t: p.t, cmd: exec.Command(program, args...), done: make(chan struct{})}
	r.cmd.Env = p.env
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.errOut
	if err := r.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		_ = r.cmd.Wait() // the test looks at the exit code
		close(r.done)
	}()
	p.t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		<-r.done
	})
	return r
}

// sidecar starts a sidecar, and waits as the kubelet does.
func (p *pod) sidecar() *process {
	p.t.Helper()
	self, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	sidecar := p.start(self, "serve", "--token-file", p.port.TokenFile)
	if ready := p.start(self, "ready"); ready.wait() != 0 {
		p.t.Fatalf("ready: %s; sidecar: %s", ready.errOut.String(), sidecar.errOut.String())
	}
	return sidecar
}

// task starts the CLI that the sidecar has put into the Pod.
func (p *pod) task(args ...string) *process {
	p.t.Helper()
	return p.start(p.path("bin/task"), args...)
}

// wait waits for the end of the process, and returns its exit code.
func (r *process) wait() int {
	<-r.done
	return r.cmd.ProcessState.ExitCode()
}

func (r *process) running() bool {
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}

// kill is a crash.
func (r *process) kill() {
	r.t.Helper()
	if err := r.cmd.Process.Kill(); err != nil {
		r.t.Fatal(err)
	}
	<-r.done
}

// terminate is what the kubelet does once the program has ended; the sidecar must end well.
func (r *process) terminate() {
	r.t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		r.t.Fatal(err)
	}
	if code := r.wait(); code != 0 {
		r.t.Fatalf("exit code %d: %s", code, r.errOut.String())
	}
}

// want checks how a process ended.
func (r *process) want(code int, out, errOut string) {
	r.t.Helper()
	if got := r.wait(); got != code {
		r.t.Errorf("%v: exit code %d, want %d", r.cmd.Args, got, code)
	}
	if got := strings.TrimSpace(r.out.String()); got != out {
		r.t.Errorf("%v: printed %q, want %q", r.cmd.Args, got, out)
	}
	if got := r.errOut.String(); errOut == "" && got != "" || !strings.Contains(got, errOut) {
		r.t.Errorf("%v: said %q, want %q", r.cmd.Args, got, errOut)
	}
}
