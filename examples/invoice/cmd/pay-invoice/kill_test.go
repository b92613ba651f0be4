package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mcptask/mcptask/examples/invoice/erp"
)

// asProgram makes the test binary be the program under test, so that it can be killed.
const asProgram = "PAY_INVOICE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// taskCommand stands in for the command of the task. Its person approves. KILL says when it kills the program that calls
// it, RESULT where it leaves the result.
const taskCommand = `#!/bin/sh
[ "$KILL" = "before $1" ] && kill -KILL $PPID && exit 1
case "$1" in
ask) echo '{"action":"accept","content":{"approve":true}}' ;;
result) cat >"$RESULT.new" && mv "$RESULT.new" "$RESULT" ;;
esac
[ "$KILL" = "after $1" ] && kill -KILL $PPID
exit 0
`

// world is an ERP and a task, which outlive the program and may kill it.
type world struct {
	t      *testing.T
	url    string
	task   string // path of the task's command
	result string // path of the result
	ledger *erp.Ledger

	mu      sync.Mutex
	program *os.Process
	kill    string
	seen    []string // requests to the ERP, each with its number
}

func newWorld(t *testing.T, task string) *world {
	t.Helper()
	folder := t.TempDir()
	ledger, err := erp.OpenLedger(filepath.Join(folder, "record"), erp.Books{
		"INV-1": {Invoice: "INV-1", Vendor: "Acme", Amount: 125000, Currency: "EUR"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ledger.Close() })
	w := &world{t: t, task: task, result: filepath.Join(folder, "result.json"), ledger: ledger}
	server := httptest.NewServer(w.killing(erp.NewServer(ledger, erp.Faults{}).Handler()))
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

// killing kills the program before or after a request has its effect.
func (w *world) killing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		what := fmt.Sprintf("%d %s %s", len(w.seen)+1, r.Method, r.URL.Path)
		w.seen = append(w.seen, what)
		if w.kill != "before "+what {
			next.ServeHTTP(rw, r)
		}
		if w.kill == "before "+what || w.kill == "after "+what {
			if err := w.program.Kill(); err != nil {
				w.t.Error(err)
			}
		}
	})
}

// attempt runs the program, as a Pod of the Job does, and returns its exit code; -1 when it was killed.
func (w *world) attempt(kill string) int {
	w.t.Helper()
	program := exec.Command(os.Args[0], "--invoice=INV-1", "--vendor=Acme", "--amount=1250.00", "--currency=EUR",
		"--erp="+w.url, "--task-command="+w.task)
	program.Env = append(os.Environ(), asProgram+"=1", "MCPTASK_TASK_ID=t1", "KILL="+kill, "RESULT="+w.result)
	var words strings.Builder
	program.Stderr = &words
	w.mu.Lock()
	w.kill, w.seen = kill, nil
	err := program.Start()
	w.program = program.Process
	w.mu.Unlock()
	if err != nil {
		w.t.Fatal(err)
	}
	_ = program.Wait() // the exit code tells
	code := program.ProcessState.ExitCode()
	if code > 0 {
		w.t.Errorf("exit %d: %s", code, words.String())
	}
	return code
}

func TestKilledAnywhereItPaysOnce(t *testing.T) {
	task := filepath.Join(t.TempDir(), "task") // written once, before anything runs: a file that is being written cannot be run
	if err := os.WriteFile(task, []byte(taskCommand), 0o700); err != nil {
		t.Fatal(err)
	}
	calm := newWorld(t, task)
	if code := calm.attempt(""); code != 0 {
		t.Fatal("it fails by itself")
	}
	calm.verify(t)
	if !slices.Contains(calm.seen, "5 POST /payments") {
		t.Fatalf("it asks the ERP otherwise than expected: %q", calm.seen)
	}
	for _, what := range append(calm.seen, "ask", "result") {
		for _, when := range []string{"before ", "after "} {
			t.Run(when+what, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, task)
				if code := w.attempt(when + what); code != -1 {
					t.Fatalf("exit %d, although it is to be killed", code)
				}
				if made := len(w.ledger.Payments("INV-1")); made > 1 {
					t.Errorf("%d payments", made)
				}
				if code := w.attempt(""); code != 0 {
					t.Fatal("the second attempt fails")
				}
				w.verify(t)
			})
		}
	}
}

// verify checks that there is one payment and a result that names it.
func (w *world) verify(t *testing.T) {
	t.Helper()
	made := w.ledger.Payments("INV-1")
	if len(made) != 1 || made[0].Key != "t1/INV-1" || made[0].Amount != 125000 {
		t.Errorf("payments %+v", made)
	}
	text, err := os.ReadFile(w.result)
	if errors.Is(err, fs.ErrNotExist) {
		t.Fatal("there is no result")
	}
	var result struct {
		StructuredContent map[string]string
		IsError           bool
	}
	if err := json.Unmarshal(text, &result); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if s := result.StructuredContent; result.IsError || s["status"] != "paid" || s["paymentKey"] != "t1/INV-1" || s["paidAmount"] != "1250.00" {
		t.Errorf("the result is %s", text)
	}
}
