package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/mcptask/mcptask/cmd/mcptask/incluster"
	"github.com/mcptask/mcptask/cmd/mcptask/mcpclient"
)

// where says which endpoint is called, and as whom.
type where struct {
	server, namespace, bridgeNamespace  string
	kubeconfig, context                 string
	tokenFile, serviceAccount, audience string
}

func (w *where) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&w.server, "server", "", "URL of the endpoint; or, together with --namespace, of the bridge")
	flags.StringVarP(&w.namespace, "namespace", "n", "", "namespace of the tools; the kubeconfig's when empty")
	flags.StringVar(&w.bridgeNamespace, "bridge-namespace", "", "namespace of the bridge; "+incluster.DefaultNamespace+" when empty, then all others")
	flags.StringVar(&w.kubeconfig, "kubeconfig", "", "path of the kubeconfig; what kubectl would read when empty")
	flags.StringVar(&w.context, "context", "", "context of the kubeconfig; the current one when empty")
	flags.StringVar(&w.tokenFile, "token-file", "", "file with the token to send; read anew for each request")
	flags.StringVar(&w.serviceAccount, "service-account", "", "service account, of the same namespace, whose token to ask the cluster for")
	flags.StringVar(&w.audience, "audience", "", "audience of the service account's token, when it is not the endpoint's public URL")
}

// connection is a way to an endpoint.
type connection struct {
	*mcpclient.Client
	close func()
}

// connect finds the endpoint and the token. The connection must be closed.
func (p *program) connect(ctx context.Context, tasks bool) (*connection, error) {
	w := &p.where
	if err := w.check(); err != nil {
		return nil, err
	}
	var cluster *incluster.Cluster
	if w.server == "" || w.serviceAccount != "" {
		loaded, err := incluster.Load(w.kubeconfig, w.context, w.namespace)
		if err != nil {
			return nil, err
		}
		cluster = loaded
	}
	endpoint, err := w.endpoint()
	if err != nil {
		return nil, err
	}
	c := &connection{close: func() {}}
	p.audience = endpoint
	httpClient := &http.Client{}
	if w.server == "" {
		bridge, err := cluster.Find(ctx, w.bridgeNamespace)
		if err != nil {
			return nil, err
		}
		if endpoint, err = bridge.Endpoint(cluster.Namespace); err != nil {
			return nil, err
		}
		forwarder := cluster.NewForwarder(bridge)
		httpClient, c.close = forwarder.HTTPClient(), forwarder.Close
		p.audience = bridge.Audience(cluster.Namespace)
	}
	if w.audience != "" {
		p.audience = w.audience
	}
	options := mcpclient.Options{Token: p.token(ctx, cluster, p.audience), HTTPClient: httpClient, Tasks: tasks, Version: version}
	if tasks { // a task's questions are shown, and answered with "answer"
		options.Capabilities = map[string]any{"elicitation": map[string]any{"form": struct{}{}, "url": struct{}{}}}
	}
	c.Client = mcpclient.New(endpoint, options)
	return c, nil
}

// check finds flags that contradict one another.
func (w *where) check() error {
	switch {
	case w.tokenFile != "" && w.serviceAccount != "":
		return usagef("--token-file and --service-account both give a token: use one of them")
	case w.audience != "" && w.serviceAccount == "":
		return usagef("--audience says what the token of --service-account is for: give that too")
	case w.server != "" && w.bridgeNamespace != "":
		return usagef("--bridge-namespace helps to find a bridge without --server: use one of them")
	}
	return nil
}

// endpoint is the URL that --server and --namespace name; empty without --server.
func (w *where) endpoint() (string, error) {
	if w.server == "" {
		return "", nil
	}
	server, err := url.Parse(w.server)
	if err != nil || server.Host == "" || server.Scheme != "http" && server.Scheme != "https" {
		return "", usagef("--server %q is not an http or https URL", w.server)
	}
	if w.namespace == "" {
		return w.server, nil
	}
	path := strings.TrimRight(server.Path, "/")
	if strings.HasSuffix(path, "/mcp") || strings.Contains(path, "/mcp/") {
		return "", usagef("--server %q names an endpoint already: leave out --namespace, or the path %s", w.server, server.Path)
	}
	return server.JoinPath("mcp", w.namespace).String(), nil
}

// token is the source of tokens that the flags and the environment name; nil without any.
func (p *program) token(ctx context.Context, cluster *incluster.Cluster, audience string) func(context.Context) (string, error) {
	switch {
	case p.where.serviceAccount != "":
		tokens := cluster.ServiceAccountTokens(ctx, p.where.serviceAccount, audience)
		return func(context.Context) (string, error) {
			token, err := tokens.Token()
			if err != nil {
				return "", err
			}
			return token.AccessToken, nil
		}
	case p.where.tokenFile != "":
		return func(context.Context) (string, error) {
			text, err := os.ReadFile(p.where.tokenFile)
			if err != nil {
				return "", fmt.Errorf("reading --token-file: %w", err)
			}
			if text = bytes.TrimSpace(text); len(text) == 0 {
				return "", fmt.Errorf("the --token-file %s is empty", p.where.tokenFile)
			}
			return string(text), nil
		}
	case p.getenv("MCPTASK_TOKEN") != "":
		token := strings.TrimSpace(p.getenv("MCPTASK_TOKEN"))
		return func(context.Context) (string, error) { return token, nil }
	}
	return nil
}

// sendsToken says whether a token is sent.
func (p *program) sendsToken() bool {
	return p.where.serviceAccount != "" || p.where.tokenFile != "" || p.getenv("MCPTASK_TOKEN") != ""
}
