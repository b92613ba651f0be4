// Command bridge serves the McpTools of a cluster to MCP clients.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mcptask/mcptask/mcpbridge"
	"github.com/mcptask/mcptask/mcpbridge/limits"
)

// version is set when the program is built for a release.
var version = "dev"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bridge:", err)
		os.Exit(1)
	}
}

func run() error {
	options := mcpbridge.Options{Version: version, Limits: limits.Default()}
	var level slog.Level
	flag.StringVar(&options.BindAddress, "bind-address", ":8080", "where MCP is served, at /mcp/NAMESPACE")
	flag.StringVar(&options.RuntimeBindAddress, "runtime-bind-address", ":8083", "where the Pods of tasks report and fetch answers")
	flag.StringVar(&options.HealthBindAddress, "health-bind-address", ":8081", "where /healthz and /readyz are served")
	flag.StringVar(&options.MetricsBindAddress, "metrics-bind-address", ":8082", "where /metrics is served")
	flag.StringVar(&options.PublicURL, "public-url", "", "the URL under which callers reach the bridge; PUBLIC-URL/mcp/NAMESPACE is the audience of their tokens")
	flag.StringVar(&options.DefaultNamespace, "default-namespace", "", "the namespace that is served at /mcp too")
	flag.Func("namespaces", "the namespaces to serve, separated by commas; all when empty", list(&options.Namespaces))
	flag.StringVar(&options.TLSFolder, "tls-folder", "", "the folder with the certificate and the key with which MCP is served, tls.crt and tls.key, read again when they change; plain HTTP when empty")
	flag.IntVar(&options.MaxConnections, "max-connections", 6000, "how many connections may be open at one time, of MCP and of the Pods of tasks each; further ones wait")
	flag.Func("allowed-hosts", "values of the Host header that are accepted beside the public URL's host, localhost and addresses, separated by commas; * accepts any", list(&options.AllowedHosts))
	flag.BoolVar(&options.TokenReview, "token-review", false, "identify callers by Kubernetes tokens")
	flag.BoolVar(&options.AllowAnonymous, "allow-anonymous", false, "serve callers without credentials; they share one another's tasks")
	flag.StringVar(&options.IssuersFile, "issuers-file", "", "a YAML file with the OpenID Connect issuers whose access tokens, made for the audience PUBLIC-URL/mcp/NAMESPACE, identify callers")
	flag.Func("required-scopes", "what the access tokens of issuers must have been granted, separated by commas", list(&options.RequiredScopes))
	flag.StringVar(&options.APIKeysFolder, "api-keys-folder", "", "the folder with descriptions of API keys, one a file: sha256, subject, groups, namespaces")
	flag.StringVar(&options.Authorization, "authorization", mcpbridge.AuthorizationRBAC, "who may call a tool: RBAC, those with the verb call on the McpTool, or None, all callers that are identified")
	flag.Int64Var(&options.MaxBodyBytes, "max-body-bytes", 1<<20, "the largest accepted body of a request, in bytes")
	flag.Int64Var(&options.MaxWaitingCalls, "max-waiting-calls", 1000, "how many tool calls may wait for their results at one time")
	flag.Int64Var(&options.MaxStreamsPerCaller, "max-streams-per-caller", 64, "how many streams of notifications (subscriptions/listen) one caller may have open; without identities all callers are one")
	flag.Int64Var(&options.MaxStreams, "max-streams", 4000, "how many streams of notifications may be open in all")
	bounds := &options.Limits
	flag.Int64Var(&bounds.StoredTasksPerNamespace, "max-stored-tasks-per-namespace", bounds.StoredTasksPerNamespace, "how many tasks a namespace may hold, ended ones included")
	flag.Int64Var(&bounds.StoredTasksPerCaller, "max-stored-tasks-per-caller", bounds.StoredTasksPerCaller, "how many tasks one caller may have in a namespace, ended ones included")
	flag.Int64Var(&bounds.RunningTasksPerCaller, "max-running-tasks-per-caller", bounds.RunningTasksPerCaller, "how many tasks of one caller in a namespace may be at work")
	flag.Int64Var(&bounds.CallsPerMinute, "max-calls-per-minute", bounds.CallsPerMinute, "how many calls of one caller may ask for a new task, at this replica")
	flag.Int64Var(&bounds.PollsPerSecond, "max-polls-per-second", bounds.PollsPerSecond, "how often one caller may ask for the state of tasks, at this replica; ten times as many may come at once")
	flag.StringVar(&options.KeysFolder, "keys-folder", "", "the folder with the keys that all replicas share, each of 32 random bytes or more; the newest in the file that sorts last")
	flag.BoolVar(&options.TolerateMissingName, "tolerate-missing-mcp-name", false, "accept task methods without the Mcp-Name header, for clients that leave it out")
	flag.TextVar(&level, "log-level", slog.LevelInfo, "debug, info, warn or error")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}

	if err := options.Validate(); err != nil {
		return err
	}

	handler := slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level})
	options.Log = slog.New(handler)
	options.Audit = slog.New(slog.NewJSONHandler(os.Stdout, nil)) // whatever the level, and apart from the rest
	kubernetes := logr.FromSlogHandler(handler)
	ctrllog.SetLogger(kubernetes)
	klog.SetLogger(kubernetes)

	cluster, err := config.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the Kubernetes API: %w", err)
	}
	bridge, err := mcpbridge.New(cluster, options)
	if err != nil {
		return err
	}
	listeners, err := bridge.Listen()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	return bridge.Run(ctx, listeners)
}

// list reads a flag that is a list.
func list(into *[]string) func(string) error {
	return func(value string) error {
		for item := range strings.SplitSeq(value, ",") {
			if item = strings.TrimSpace(item); item != "" {
				*into = append(*into, item)
			}
		}
		return nil
	}
}
