//go:build integration

package integration

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge"
	"github.com/mcptask/mcptask/mcpbridge/limits"
	"github.com/mcptask/mcptask/mcpbridge/mcptest"
)

// bridge is one that runs until the test ends.
type bridge struct {
	mcp, runtime string
}

// runBridge runs a bridge for one namespace, which lets everybody in.
func runBridge(t *testing.T, config *rest.Config, namespace string) *bridge {
	t.Helper()
	keys := t.TempDir()
	if err := os.WriteFile(filepath.Join(keys, "1"), []byte(rand.Text()+rand.Text()), 0o600); err != nil {
		t.Fatal(err)
	}
	const anywhere = "127.0.0.1:0"
	b, err := mcpbridge.New(config, mcpbridge.Options{
		BindAddress: anywhere, RuntimeBindAddress: anywhere, HealthBindAddress: anywhere, MetricsBindAddress: anywhere,
		AllowAnonymous: true, Authorization: mcpbridge.AuthorizationNone, MaxConnections: 100, Namespaces: []string{namespace}, MaxBodyBytes: 1 << 20, MaxWaitingCalls: 10, MaxStreamsPerCaller: 10, MaxStreams: 10,
		Limits: limits.Default(), KeysFolder: keys, Version: "test", Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	listeners, err := b.Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx, listeners) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the bridge ended: %v", err)
		}
	})
	eventually(t, "the bridge is ready", func() error {
		response, err := http.Get("http://" + listeners.Health.Addr().String() + "/readyz")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	})
	return &bridge{mcp: "http://" + listeners.MCP.Addr().String() + "/mcp/" + namespace, runtime: "http://" + listeners.Runtime.Addr().String()}
}

// call makes a task over MCP, once the bridge offers the tool.
func (b *bridge) call(t *testing.T, tool *v1alpha1.McpTool) *v1alpha1.McpTask {
	t.Helper()
	task := &v1alpha1.McpTask{}
	task.Namespace = tool.Namespace
	eventually(t, "the call has a handle", func() error {
		response := mcptest.Client{URL: b.mcp, Tasks: true}.Call(t, "tools/call", map[string]any{"name": tool.WireName(), "arguments": map[string]any{"n": 3}})
		var handle struct{ TaskID string }
		if response.Error != nil || json.Unmarshal(response.Result, &handle) != nil || handle.TaskID == "" {
			return errors.New(response.Raw)
		}
		task.Name = handle.TaskID
		return nil
	})
	return task
}
