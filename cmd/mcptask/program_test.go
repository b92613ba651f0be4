package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcptask/mcptask/cmd/mcptask/internal/fakebridge"
)

const (
	hello     = `{"resultType":"complete","content":[{"type":"text","text":"Hello, Ada!"}]}`
	completed = `"result":` + hello
	unlimited = `"pollIntervalMs":20`
)

// outcome is what a run of the command leaves behind.
type outcome struct {
	code        int
	out, errOut string
}

// runIn runs the command with an environment.
func runIn(ctx context.Context, env map[string]string, arguments ...string) outcome {
	var out, errOut bytes.Buffer
	p := &program{name: "mcptask", out: &out, errOut: &errOut, getenv: func(name string) string { return env[name] }}
	code := p.run(ctx, arguments)
	return outcome{code, out.String(), errOut.String()}
}

// run runs the command against a bridge.
func run(t *testing.T, bridge *fakebridge.Bridge, arguments ...string) outcome {
	t.Helper()
	return runIn(t.Context(), nil, append(arguments, "--server", bridge.URL+"/mcp/default")...)
}

// check compares an outcome; of errOut it wants each of the parts.
func (o outcome) check(t *testing.T, code int, out string, parts ...string) {
	t.Helper()
	if o.code != code || o.out != out {
		t.Errorf("exit code %d, want %d; printed %q, want %q", o.code, code, o.out, out)
	}
	for _, part := range parts {
		if !strings.Contains(o.errOut, part) {
			t.Errorf("said %q, want %q in it", o.errOut, part)
		}
	}
	if t.Failed() {
		t.Logf("stderr: %s", o.errOut)
	}
}

func TestWrongUsageIsOneClearLine(t *testing.T) {
	for _, c := range []struct{ line, said string }{
		{"surprise", `there is no command "surprise"; mcptask --help lists them`},
		{"tools crawl", "mcptask tools takes no arguments"},
		{"tools --surprise", "unknown flag: --surprise; see mcptask tools --help"},
		{"tools -o yaml", `invalid argument "yaml" for "-o, --output" flag: must be json or text; see mcptask tools --help`},
		{"get", "give one TASK: mcptask get TASK"},
		{"watch", "give one TASK or more: mcptask watch TASK..."},
		{"call", "give a TOOL and at most one JSON object: mcptask call TOOL [ARGUMENTS_JSON]"},
		{"call greet {", "the arguments are not JSON: unexpected end of JSON input"},
		{"call greet [1]", `the arguments must be a JSON object, such as '{"name":"value"}'`},
		{"call greet null", `the arguments must be a JSON object, such as '{"name":"value"}'`},
		{"call greet {} --arg a=b", "give the arguments as a JSON object or with --arg, not both"},
		{"call greet --arg a", `--arg "a" is not NAME=VALUE`},
		{"call greet --arg a=1 --arg a=2", "--arg a is given twice"},
		{"call greet --wait --no-tasks", "--no-tasks waits by itself: leave out --wait"},
		{"tools --server example.com", `--server "example.com" is not an http or https URL`},
		{"tools --server http://x/mcp/a -n b", `--server "http://x/mcp/a" names an endpoint already: leave out --namespace, or the path /mcp/a`},
		{"tools --server http://x --bridge-namespace y", "--bridge-namespace helps to find a bridge without --server: use one of them"},
		{"tools --server http://x --audience y", "--audience says what the token of --service-account is for: give that too"},
		{"tools --token-file x --service-account y", "--token-file and --service-account both give a token: use one of them"},
	} {
		got := runIn(t.Context(), nil, strings.Fields(c.line)...)
		if want := "Error: " + c.said + "\n"; got.code != exitUsage || got.errOut != want || got.out != "" {
			t.Errorf("%s: exit code %d, said %q, want %q", c.line, got.code, got.errOut, want)
		}
	}
}

func TestNoKubeconfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	runIn(t.Context(), nil, "tools", "--kubeconfig", file).check(t, exitRefused, "", "there is no cluster in the kubeconfig "+file)
	t.Setenv("KUBECONFIG", file+"-gone")
	runIn(t.Context(), nil, "tools").check(t, exitRefused, "", "there is no cluster in the kubeconfig "+file+"-gone")
}

func TestServerAndNamespace(t *testing.T) {
	bridge := fakebridge.New(t)
	bridge.On("tools/list", fakebridge.Result(`{"tools":[]}`))
	for i, c := range []struct{ server, namespace, path string }{
		{"/mcp/team-a", "", "/mcp/team-a"}, {"/", "team-b", "/mcp/team-b"}, {"/agents", "team-c", "/agents/mcp/team-c"},
	} {
		runIn(t.Context(), nil, "tools", "--server", bridge.URL+c.server, "-n", c.namespace).check(t, 0, "", "There are no tools here that you may call.")
		if got := bridge.Requests("tools/list")[i].Path; got != c.path {
			t.Errorf("asked %s, want %s", got, c.path)
		}
	}
}

func TestTools(t *testing.T) {
	bridge := fakebridge.New(t)
	bridge.On("tools/list", fakebridge.Result(`{"tools":[{"name":"crawl","description":"Walks\na site. Slowly.","inputSchema":{"type":"object","required":["url"],
		"properties":{"depth":{"type":"integer","default":3,"description":"How far."},"odd":true,"url":{"type":["string","null"],"description":"Where to start. Absolute."}}}}]}`))
	run(t, bridge, "tools").check(t, 0, ""+
		"crawl    Walks a site.\n"+
		"  url    string or null, required: Where to start.\n"+
		"  depth  integer, default 3: How far.\n"+
		"  odd    \n")
	if got := run(t, bridge, "tools", "-o", "json"); !strings.Contains(got.out, `"default": 3`) {
		t.Errorf("printed %s", got.out)
	}
}

func TestTokens(t *testing.T) {
	bridge := fakebridge.New(t)
	bridge.On("tools/list", fakebridge.Result(`{"tools":[]}`))
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"MCPTASK_TOKEN": "from-env"}
	for i, c := range []struct {
		arguments []string
		sent      string
	}{{nil, "Bearer from-env"}, {[]string{"--token-file", file}, "Bearer from-file"}} {
		runIn(t.Context(), env, append(c.arguments, "tools", "--server", bridge.URL)...).check(t, 0, "")
		if got := bridge.Requests("tools/list")[i].Header.Get("Authorization"); got != c.sent {
			t.Errorf("sent %q, want %q", got, c.sent)
		}
	}
	run(t, bridge, "tools", "--token-file", file+"-missing").check(t, exitRefused, "", "reading --token-file: ")
}

func TestUnauthorizedSaysWhatToDo(t *testing.T) {
	bridge := fakebridge.New(t)
	bridge.On("tools/list", fakebridge.Error(401, -32600, "authentication is required"))
	got := run(t, bridge, "tools")
	got.check(t, exitRefused, "", "authentication is required", "--service-account NAME", "--token-file FILE", "MCPTASK_TOKEN")
	got = runIn(t.Context(), map[string]string{"MCPTASK_TOKEN": "secret"}, "tools", "--server", bridge.URL+"/mcp/default")
	got.check(t, exitRefused, "", "made for this endpoint: "+bridge.URL+"/mcp/default")
	if strings.Contains(got.errOut, "secret") {
		t.Errorf("the token was printed: %s", got.errOut)
	}
}

func TestNobodyThere(t *testing.T) {
	bridge := fakebridge.New(t)
	bridge.On("tools/list", fakebridge.Hangup)
	run(t, bridge, "tools").check(t, exitRefused, "", "no answer from the server")
}
