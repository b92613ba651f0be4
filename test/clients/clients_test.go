//go:build e2e

// Package clients drives the installed bridge with MCP clients as they are shipped: their authors wrote what they send,
// and what they refuse to read is refused here too. Each request reaches the next replica of the bridge.
package clients

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// The two eras of the protocol, each the newest revision of its own.
const (
	modern = "2026-07-28"
	legacy = "2025-11-25"
)

// shipped is a client in one era. Its scripts are scripts/PREFIX-WHAT.mjs.
type shipped struct{ name, prefix, era string }

var (
	extModern = shipped{"ext-tasks 2026-07-28", "ext", modern}
	extLegacy = shipped{"ext-tasks 2025-11-25", "ext", legacy}
	sdkLegacy = shipped{"sdk 2025-11-25", "v1", legacy}

	plainModern = shipped{"client 2026-07-28", "plain", modern}
	plainLegacy = shipped{"client 2025-11-25", "plain", legacy}
)

// caller is a client and the script by which it calls a tool.
type caller struct {
	shipped
	script string
}

// callersWithTasks take the handle of a task, the others call a tool and wait.
var (
	callersWithTasks    = []caller{{extModern, "call"}, {extLegacy, "call"}, {sdkLegacy, "call"}}
	callersWithoutTasks = []caller{{plainModern, "call"}, {plainLegacy, "call"}, {sdkLegacy, "plain"}}
)

// site is a namespace with tools, and one URL for them in front of all replicas.
type site struct {
	cluster        *harness.Cluster
	namespace, url string
}

func newSite(t *testing.T, names ...string) *site {
	t.Helper()
	cluster, err := harness.Connect()
	if err != nil {
		t.Fatal(err)
	}
	s := &site{cluster: cluster, namespace: cluster.Namespace(t)}
	s.add(t, names...)
	s.url = s.path(cluster.Balanced(t, s.token(t)))
	return s
}

// token is the agent's.
func (s *site) token(t *testing.T) string {
	t.Helper()
	return s.cluster.Token(t, s.namespace, "agent", harness.Audience(s.namespace))
}

// path is the URL of the namespace's tools at a host.
func (s *site) path(host string) string { return host + "/mcp/" + s.namespace }

// add adds tools of tools.yaml.
func (s *site) add(t *testing.T, names ...string) {
	t.Helper()
	raw, err := os.ReadFile("tools.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var wanted []string
	for _, manifest := range strings.Split(string(raw), "\n---\n") {
		if slices.ContainsFunc(names, func(name string) bool { return strings.Contains(manifest, "metadata: {name: "+name+"}") }) {
			wanted = append(wanted, manifest)
		}
	}
	if len(wanted) != len(names) {
		t.Fatalf("tools.yaml has %d of the tools %v", len(wanted), names)
	}
	s.cluster.Apply(t, s.namespace, strings.Join(wanted, "\n---\n"))
	s.cluster.AwaitTools(t, s.namespace)
}

// agent is who the clients are.
func (s *site) agent() string { return "system:serviceaccount:" + s.namespace + ":agent" }

// stored is the task as kubectl shows it.
func (s *site) stored(t *testing.T, id string) *v1alpha1.McpTask {
	t.Helper()
	task := &v1alpha1.McpTask{}
	if err := s.cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: id}, task); err != nil {
		t.Fatal(err)
	}
	if task.Spec.Owner == nil || task.Spec.Owner.Subject != s.agent() {
		t.Errorf("the task %s belongs to %v, not to %s", id, task.Spec.Owner, s.agent())
	}
	return task
}

// awaitStored waits for the task's state and reason, as kubectl shows them.
func (s *site) awaitStored(t *testing.T, id string, state v1alpha1.TaskState, reason string) *v1alpha1.McpTask {
	t.Helper()
	var task *v1alpha1.McpTask
	harness.Eventually(t, time.Minute, "the task is "+string(state)+"/"+reason, func(context.Context) error {
		task = s.stored(t, id)
		if task.Status.State != state || task.Status.Reason != reason {
			return fmt.Errorf("it is %s/%s: %s", task.Status.State, task.Status.Reason, task.Status.Message)
		}
		return nil
	})
	return task
}

// one is the only task of the namespace.
func (s *site) one(t *testing.T) *v1alpha1.McpTask {
	t.Helper()
	var tasks v1alpha1.McpTaskList
	if err := s.cluster.Client.List(t.Context(), &tasks, client.InNamespace(s.namespace)); err != nil {
		t.Fatal(err)
	}
	if len(tasks.Items) != 1 {
		t.Fatalf("there are %d tasks, want one", len(tasks.Items))
	}
	return &tasks.Items[0]
}

// seen is what a client saw, as its script printed it.
type seen struct {
	// Kind is task when the call became one, else immediate.
	Kind   string `json:"kind"`
	TaskID string `json:"taskId"`
	TTL    *int64 `json:"ttl"`
	// States that the task went through, as far as the client noticed, and the outcome as the client names it.
	States  []string `json:"states"`
	Outcome string   `json:"outcome"`
	Result  *result  `json:"result"`
	// Error that the call or the task ended with; Again that of a repeated request.
	Error *rpcError `json:"error"`
	Again *rpcError `json:"again"`
	// Asked are the questions that were put to the user.
	Asked    []question `json:"asked"`
	Progress []progress `json:"progress"`
	Before   []string   `json:"before"`
	Tools    []string   `json:"tools"`
	Tasks    []string   `json:"tasks"`
	// ClosedByServer says how a subscription ended that the client did not close.
	ClosedByServer string `json:"closedByServer"`
	// Faults are what the client complained of without failing.
	Faults []string `json:"faults"`
}

type result struct {
	Content []struct {
		Text string `json:"text"`
	} `json:"content"`
	StructuredContent json.RawMessage `json:"structuredContent"`
	IsError           bool            `json:"isError"`
}

// text of a result, "" of none.
func (r *result) text() string {
	var all []string
	if r != nil {
		for _, block := range r.Content {
			all = append(all, block.Text)
		}
	}
	return strings.Join(all, "\n")
}

type rpcError struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

type question struct {
	Message  string `json:"message"`
	TaskID   string `json:"taskId"`
	Delivery string `json:"delivery"`
}

type progress struct {
	Progress float64 `json:"progress"`
	Total    float64 `json:"total"`
}

// questions are the messages of the questions that were put to the user, each once.
func (s *seen) questions() []string {
	var all []string
	for _, q := range s.Asked {
		all = append(all, q.Message)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// input is what a script is told. The era and the URL are added.
type input map[string]any

// script is a client that runs.
type script struct {
	t      *testing.T
	name   string
	cmd    *exec.Cmd
	leave  io.Closer
	lines  *bufio.Scanner
	stderr bytes.Buffer
}

// call calls a tool, in the way of the caller.
func (c caller) call(t *testing.T, url string, in input) seen {
	t.Helper()
	return c.run(t, url, c.script, in)
}

// run runs a script of the client to its end.
func (c shipped) run(t *testing.T, url, what string, in input) seen {
	t.Helper()
	return c.start(t, url, what, in).end()
}

// start starts a script of the client.
func (c shipped) start(t *testing.T, url, what string, in input) *script {
	t.Helper()
	told := input{"url": url, "era": c.era}
	for key, value := range in {
		told[key] = value
	}
	argument, err := json.Marshal(told)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	s := &script{t: t, name: c.prefix + "-" + what + ".mjs"}
	s.cmd = exec.CommandContext(ctx, node(t), filepath.Join("scripts", s.name), string(argument))
	s.cmd.Stderr = &s.stderr
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if s.leave, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.lines = bufio.NewScanner(stdout)
	s.lines.Buffer(nil, 1<<20)
	return s
}

// ready waits until the client is where the test wants it.
func (s *script) ready() {
	s.t.Helper()
	if !s.lines.Scan() || s.lines.Text() != "ready" {
		_ = s.cmd.Wait()
		s.t.Fatalf("%s printed %q instead of ready\n%s", s.name, s.lines.Text(), s.stderr.String())
	}
}

// end lets the client go and reads what it saw. What it complained of fails the test.
func (s *script) end() seen {
	s.t.Helper()
	_ = s.leave.Close()
	var saw seen
	found := s.lines.Scan()
	line := bytes.Clone(s.lines.Bytes())
	if err := s.cmd.Wait(); err != nil || !found {
		s.t.Fatalf("%s: %v\n%s\n%s", s.name, err, line, s.stderr.String())
	}
	if err := json.Unmarshal(line, &saw); err != nil {
		s.t.Fatalf("%s printed %q: %v", s.name, line, err)
	}
	for _, fault := range saw.Faults {
		s.t.Errorf("%s complains: %s", s.name, fault)
	}
	s.t.Logf("%s saw %s", s.name, line)
	return saw
}

// install installs what package-lock.json names: the clients, and the Node.js they need.
var install = sync.OnceValues(func() (string, error) {
	if _, err := exec.LookPath("npm"); err != nil {
		return "", fmt.Errorf("the clients come from npm: install npm (Debian: apt-get install npm): %w", err)
	}
	if out, err := exec.Command("npm", "ci", "--no-audit", "--no-fund", "--prefer-offline").CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	return filepath.Join("node_modules", "node", "bin", "node"), nil
})

func node(t *testing.T) string {
	t.Helper()
	program, err := install()
	if err != nil {
		t.Fatal(err)
	}
	return program
}
