package endpoint

import "testing"

func TestHostsThatAreLetIn(t *testing.T) {
	h := newHosts("https://mcp.Example.com/base", []string{"mcptask-bridge.tools", "sidecar:8443"})
	for host, want := range map[string]bool{
		"mcp.example.com":           true,
		"MCP.example.com:443":       true,
		"mcp.example.com.":          true,
		"mcptask-bridge.tools":      true,
		"mcptask-bridge.tools:80":   true,
		"sidecar:8443":              true,
		"localhost":                 true,
		"localhost:8080":            true,
		"127.0.0.1:8080":            true,
		"[::1]:8080":                true,
		"[::1]":                     true,
		"10.0.0.7":                  true,
		"sidecar":                   false,
		"sidecar:80":                false,
		"evil.example.com":          false,
		"localhost.evil.example":    false,
		"127.0.0.1.nip.io:8080":     false,
		"mcp.example.com.evil":      false,
		"mcp.example.com:443:8080":  false,
		"":                          false,
		":8080":                     false,
		"0x7f000001":                false,
		"user@mcp.example.com":      false,
		"mcp.example.com/localhost": false,
	} {
		if got := h.allow(host); got != want {
			t.Errorf("%q: let in is %v", host, got)
		}
	}
	if h := newHosts("", []string{"*"}); !h.allow("anything.example.com:1") {
		t.Error("* lets in only some")
	}
	if h := newHosts("", nil); h.allow("mcp.example.com") || !h.allow("localhost:1") {
		t.Error("without a public URL")
	}
}
