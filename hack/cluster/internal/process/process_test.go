package process

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"
)

func TestParseInit(t *testing.T) {
	want := Init{PID: 7, Cluster: "ct1", Role: "node2", Dir: "/var/cache/mcptask/clusters/ct1"}
	if got, ok := parseInit(7, want.Args()); !ok || got != want {
		t.Errorf("got %+v, %v", got, ok)
	}
	for _, args := range [][]string{
		nil, {""}, {Marker}, {Marker, "up", "--name", "ct1", "--role", "cp", "--dir", "/x"},
		{"cluster", "init", "--name", "ct1", "--role", "cp", "--dir", "/x"}, {Marker, "init", "--role", "cp", "--name", "ct1", "--dir", "/x"},
	} {
		if got, ok := parseInit(7, args); ok {
			t.Errorf("%v was taken for %+v", args, got)
		}
	}
}

func TestParsePSS(t *testing.T) {
	const rollup = "55d1c0a00000-7ffd4b5f6000 ---p 00000000 00:00 0  [rollup]\nRss:  5000 kB\nPss:  2048 kB\nPss_Anon:  1 kB\n"
	if got := parsePSS([]byte(rollup)); got != 2<<20 {
		t.Errorf("got %d", got)
	}
	if got := parsePSS(nil); got != 0 {
		t.Errorf("got %d of nothing", got)
	}
}

// A process that only has the command line of a first process is not one: it
// must be PID 1 of a namespace, too. And what is killed must be what was meant.
func TestImpostor(t *testing.T) {
	i := Init{Cluster: "impostor", Role: "cp", Dir: "/x"}
	cmd := exec.Command(os.Args[0])
	cmd.Args = i.Args()
	cmd.Env = append(os.Environ(), "PROCESS_TEST_SLEEP=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	i.PID = cmd.Process.Pid
	for deadline := time.Now().Add(10 * time.Second); !slices.Equal(args(i.PID), i.Args()); {
		if time.Now().After(deadline) {
			t.Fatalf("the command line is %v", args(i.PID))
		}
	}
	inits, err := Inits()
	if err != nil || slices.Contains(inits, i) {
		t.Errorf("found %v, %v", inits, err)
	}
	other := i
	other.Cluster = "another"
	if err := other.Kill(t.Context()); err != nil {
		t.Error(err)
	}
	if args(i.PID) == nil {
		t.Error("a process was killed that was not meant")
	}
	if err := i.Kill(t.Context()); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the process was not killed")
	}
}

func TestMain(m *testing.M) {
	if os.Getenv("PROCESS_TEST_SLEEP") != "" {
		time.Sleep(time.Minute)
		return
	}
	os.Exit(m.Run())
}
