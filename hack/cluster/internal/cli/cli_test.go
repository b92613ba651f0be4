package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/mcptask/mcptask/hack/cluster/internal/cache"
)

// Wrong arguments are refused before anything is built or changed.
func TestRefusals(t *testing.T) {
	t.Setenv(cache.Variable, t.TempDir())
	for line, want := range map[string]string{
		"up --subnet 172.30":         "--subnet: netip.ParsePrefix",
		"up --nodes -1":              "--nodes: want 0 or more",
		"up extra":                   "unknown command",
		"--name Upper down":          `"Upper" is not a cluster name`,
		"status":                     "cluster mcptask is not up",
		"kubeconfig --name ct1":      "cluster ct1 is not up",
		"load":                       "requires at least 1 arg",
		"load image.tar":             "cluster mcptask is not up",
		"kill kubelet":               `"kubelet" is not ROLE/COMPONENT`,
		"kill node1/kubelet":         "cluster mcptask is not up",
		"stop node1":                 "cluster mcptask is not up",
		"exec node1 ls --name other": "cluster mcptask is not up",
		"logs node1/kubelet":         "cluster mcptask is not up",
		"bin kustomize":              `no program "kustomize" here`,
		"init":                       "is not a cluster name",
		"unknown":                    "unknown command",
	} {
		cmd := command()
		cmd.SetArgs(strings.Fields(line))
		cmd.SetOut(&bytes.Buffer{})
		cmd.SetErr(&bytes.Buffer{})
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", line, err, want)
		}
	}
}

// A program that fails in the course of a command must not fail it silently.
func TestOnlyExecIsSilent(t *testing.T) {
	t.Setenv(cache.Variable, t.TempDir())
	t.Setenv("PATH", t.TempDir())
	cmd := command()
	cmd.SetArgs([]string{"bin", "controller-gen"})
	err := cmd.ExecuteContext(t.Context())
	var code exitCode
	if err == nil || errors.As(err, &code) || !strings.Contains(err.Error(), "the go command is not in PATH") {
		t.Errorf("got %v", err)
	}
}
