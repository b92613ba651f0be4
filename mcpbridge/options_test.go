package mcpbridge

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/mcptask/mcptask/mcpbridge/limits"
)

func TestOptionsThatCannotWorkAreNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no source of identities":          {func(o *Options) { o.AllowAnonymous = false }, "--token-review"},
		"tokens without an audience":       {func(o *Options) { o.TokenReview = true }, "--public-url"},
		"no such authorization":            {func(o *Options) { o.Authorization = "" }, "--authorization"},
		"issuers without an audience":      {func(o *Options) { o.IssuersFile = "issuers.yaml" }, "--public-url"},
		"scopes without an issuer":         {func(o *Options) { o.RequiredScopes = []string{"call"} }, "--required-scopes"},
		"what is no scope":                 {func(o *Options) { o.RequiredScopes = []string{`a"b`} }, "--required-scopes"},
		"a URL with a query":               {func(o *Options) { o.PublicURL = "https://mcp.example.com?x=1" }, "--public-url"},
		"a URL without a scheme":           {func(o *Options) { o.PublicURL = "mcp.example.com" }, "--public-url"},
		"a URL of another scheme":          {func(o *Options) { o.PublicURL = "ftp://mcp.example.com" }, "--public-url"},
		"a namespace that cannot be":       {func(o *Options) { o.Namespaces = []string{"a/b"} }, `"a/b"`},
		"a default that is not served":     {func(o *Options) { o.Namespaces, o.DefaultNamespace = []string{"a"}, "b" }, "--default-namespace"},
		"no body at all":                   {func(o *Options) { o.MaxBodyBytes = 0 }, "--max-body-bytes"},
		"nobody may wait":                  {func(o *Options) { o.MaxWaitingCalls = 0 }, "--max-waiting-calls"},
		"nobody may listen":                {func(o *Options) { o.MaxStreams = 0 }, "--max-streams"},
		"no caller may listen":             {func(o *Options) { o.MaxStreamsPerCaller = 0 }, "--max-streams-per-caller"},
		"no tasks for a caller":            {func(o *Options) { o.Limits.StoredTasksPerCaller = 0 }, "--max-stored-tasks-per-caller"},
		"nobody may connect":               {func(o *Options) { o.MaxConnections = 0 }, "--max-connections"},
		"no keys":                          {func(o *Options) { o.KeysFolder = "" }, "--keys-folder"},
		"and what works":                   {func(o *Options) {}, ""},
		"tokens with a URL, slash and all": {func(o *Options) { o.TokenReview, o.PublicURL = true, "https://mcp.example.com/" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			if err := os.WriteFile(filepath.Join(folder, "1"), bytes.Repeat([]byte("k"), 32), 0o600); err != nil {
				t.Fatal(err)
			}
			options := Options{AllowAnonymous: true, Authorization: AuthorizationRBAC, MaxBodyBytes: 1, MaxWaitingCalls: 1, MaxStreamsPerCaller: 1, MaxStreams: 1, MaxConnections: 1, Limits: limits.Default(), KeysFolder: folder, Log: slog.New(slog.DiscardHandler)}
			tc.change(&options)
			err := options.Validate()
			if tc.want == "" {
				if err != nil || strings.HasSuffix(options.PublicURL, "/") {
					t.Errorf("got %v with %q", err, options.PublicURL)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want it to name %s", err, tc.want)
			}
			if _, err := New(&rest.Config{}, options); err == nil {
				t.Error("a bridge is made all the same")
			}
		})
	}
}
