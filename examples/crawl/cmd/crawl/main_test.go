package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcptask/mcptask/examples/crawl/internal/contract"
	"github.com/mcptask/mcptask/examples/crawl/report"
	"github.com/mcptask/mcptask/examples/crawl/site"
)

const toolFile = "../../tool.yaml"

// asCommand makes the test binary be the command, so that signals can be sent to it.
const asCommand = "CRAWL_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	os.Exit(m.Run())
}

// lastLine checks a crawl's output against the outputSchema and decodes it.
func lastLine(t *testing.T, stdout []byte) report.Report {
	t.Helper()
	lines := bytes.Split(bytes.TrimSuffix(stdout, []byte("\n")), []byte("\n"))
	last := lines[len(lines)-1]
	contract.Output(t, toolFile).Check(t, last)
	var r report.Report
	if err := json.Unmarshal(last, &r); err != nil {
		t.Fatal(err)
	}
	if len(lines) > 21 {
		t.Errorf("the text before the JSON has %d lines", len(lines)-1)
	}
	return r
}

func TestTenThousandPages(t *testing.T) {
	server := httptest.NewServer(site.Plan{Pages: 10000, Broken: 137}.Handler())
	defer server.Close()
	response, err := http.Get(server.URL + "/truth.json")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var truth site.Truth
	if err := json.NewDecoder(response.Body).Decode(&truth); err != nil {
		t.Fatal(err)
	}

	var stdout, stderr bytes.Buffer
	if code := run([]string{"--url=" + server.URL, "--depth=20", "--max-pages=100000"}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit %d: %s", code, &stderr)
	}
	r := lastLine(t, stdout.Bytes())

	got := site.Truth{
		Pages: r.Pages, Files: r.Files, Fetched: r.Fetched, Bytes: r.Bytes,
		StatusClasses: site.StatusClasses{
			S2xx: r.StatusClasses.S2xx, S3xx: r.StatusClasses.S3xx, S4xx: r.StatusClasses.S4xx, S5xx: r.StatusClasses.S5xx,
		},
		Skipped:         site.Skipped{Robots: r.Skipped.Robots, Offsite: r.Skipped.Offsite},
		MaxDepthReached: r.MaxDepthReached,
		BrokenTotal:     r.BrokenTotal,
	}
	told := map[string]site.BrokenTruth{}
	for _, b := range truth.Broken {
		told[b.Path] = b
	}
	truth.Broken = nil
	if !reflect.DeepEqual(got, truth) {
		t.Errorf("the crawl found %+v,\nthe truth is %+v", got, truth)
	}
	if !r.Complete || r.StatusClasses.Error != 0 || r.Skipped.Depth+r.Skipped.Limit+r.Skipped.Interrupted+r.Skipped.Invalid != 0 {
		t.Errorf("not a whole crawl: %+v", r.Skipped)
	}
	if len(r.Broken)+r.BrokenOmitted != truth.BrokenTotal || len(r.Broken) < 90 {
		t.Errorf("%d broken links listed, %d omitted", len(r.Broken), r.BrokenOmitted)
	}
	for _, b := range r.Broken {
		path := strings.TrimPrefix(b.URL, server.URL)
		got := site.BrokenTruth{Path: path, Status: b.Status, Error: b.Error, Referrers: len(b.Referrers) + b.ReferrersOmitted}
		if got != told[path] {
			t.Errorf("the crawl found %+v, the truth is %+v", got, told[path])
		}
	}
}

func TestExitCodes(t *testing.T) {
	server := httptest.NewServer(site.Plan{Pages: 10, Broken: 3}.Handler())
	defer server.Close()
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"no URL", nil, 2, "--url is required"},
		{"empty URL", []string{"--url="}, 2, "--url is required"},
		{"bad URL", []string{"--url=example.com"}, 2, "--url: must be"},
		{"password", []string{"--url=http://u:secret@h/"}, 2, "--url: must not"},
		{"bad depth", []string{"--url=http://h/", "--depth=three"}, 2, "--depth: must be a whole number from 0 to 20"},
		{"large depth", []string{"--url=http://h/", "--depth=21"}, 2, "--depth"},
		{"no pages", []string{"--url=http://h/", "--max-pages=0"}, 2, "--max-pages"},
		{"bad timeout", []string{"--url=http://h/", "--timeout=5"}, 2, "--timeout: must be a duration"},
		{"zero timeout", []string{"--url=http://h/", "--timeout=0s"}, 2, "--timeout"},
		{"bad delay", []string{"--url=http://h/", "--delay=-1s"}, 2, "--delay"},
		{"bad concurrency", []string{"--url=http://h/", "--concurrency=0"}, 2, "--concurrency"},
		{"bad user agent", []string{"--url=http://h/", "--user-agent=a\nb"}, 2, "--user-agent"},
		{"nameless user agent", []string{"--url=http://h/", "--user-agent=1.0"}, 2, "--user-agent"},
		{"unknown flag", []string{"--speed=9"}, 2, "-speed"},
		{"argument", []string{"--url=http://h/", "more"}, 2, `"more"`},
		{"start page is missing", []string{"--url=" + server.URL + "/nothing"}, 1, "answered 404"},
		{"broken links are no failure", []string{"--url=" + server.URL}, 0, ""},
		{"empty values are defaults", []string{
			"--url=" + server.URL, "--depth=", "--max-pages=", "--timeout=", "--delay=", "--concurrency=", "--user-agent=",
		}, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(c.args, &stdout, &stderr); code != c.code {
				t.Errorf("exit %d, want %d", code, c.code)
			}
			if c.code == 0 {
				if r := lastLine(t, stdout.Bytes()); r.BrokenTotal != 3 || !r.Complete {
					t.Errorf("the report is %+v", r)
				}
				return
			}
			if said := stderr.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, c.says) || strings.Contains(said, "secret") {
				t.Errorf("stderr is %q, want one line with %q", said, c.says)
			}
			if stdout.Len() > 0 {
				t.Errorf("stdout is %q", &stdout)
			}
		})
	}
}

func TestSIGTERMGivesWhatThereIs(t *testing.T) {
	reached := make(chan bool, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, `<a href="/hang">hang</a>`)
		case "/hang":
			reached <- true
			<-r.Context().Done()
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()

	command := exec.Command(os.Args[0], "--url="+server.URL, "--timeout=10m")
	command.Env = append(os.Environ(), asCommand+"=1")
	var stdout bytes.Buffer
	command.Stdout = &stdout
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-reached:
	case <-time.After(30 * time.Second):
		t.Error("the crawl did not get to the page that hangs")
	}
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait()
	if code := command.ProcessState.ExitCode(); code != 143 {
		t.Errorf("exit %d, want 143", code)
	}
	r := lastLine(t, stdout.Bytes())
	if r.Complete || r.IncompleteReason != "interrupted" || r.Pages != 1 || r.Skipped.Interrupted != 1 {
		t.Errorf("the report is %+v", r)
	}
}

func TestInputSchemaAndFlagsAgree(t *testing.T) {
	input := contract.Input(t, toolFile)
	for arguments, flags := range map[string][]string{
		`{"url": "http://h/"}`: {"--url=http://h/", "--depth=3", "--max-pages=1000"},
		`{"url": "https://h:8443/p?q", "depth": 0, "maxPages": 1}`: {"--url=https://h:8443/p?q", "--depth=0", "--max-pages=1"},
		`{"url": "http://h/", "depth": 20, "maxPages": 100000}`:    {"--url=http://h/", "--depth=20", "--max-pages=100000"},
	} {
		input.Check(t, []byte(arguments))
		if _, err := parseFlags(flags); err != nil {
			t.Errorf("%v: %v", flags, err)
		}
	}
	for _, arguments := range []string{
		`{}`, `{"url": ""}`, `{"url": "ftp://h/"}`, `{"url": "h"}`, `{"url": "http://h/", "depth": 21}`, `{"url": "http://h/", "depth": -1}`,
		`{"url": "http://h/", "maxPages": 0}`, `{"url": "http://h/", "maxPages": 100001}`, `{"url": "http://h/", "speed": 9}`,
	} {
		if input.Err([]byte(arguments)) == nil {
			t.Errorf("the schema accepts %s", arguments)
		}
	}
}
