package mcpbridge

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mcptask/mcptask/mcpbridge/limits"
)

// Options say how a bridge is run. Each is a flag of cmd/bridge.
type Options struct {
	// BindAddress, RuntimeBindAddress, HealthBindAddress and MetricsBindAddress are where MCP, the Pods of tasks, the
	// probes and the metrics are served.
	BindAddress, RuntimeBindAddress, HealthBindAddress, MetricsBindAddress string
	// PublicURL is the URL under which callers reach the bridge; it makes the audience of their tokens.
	PublicURL string
	// DefaultNamespace is served at /mcp as well as at /mcp/NAME; none when empty.
	DefaultNamespace string
	// Namespaces to watch and serve; all when empty.
	Namespaces []string
	// TLSFolder has the certificate and the key with which MCP is served, tls.crt and tls.key; plain HTTP when empty.
	TLSFolder string
	// MaxConnections bounds the connections that are open at one time, of MCP and of the Pods of tasks each.
	MaxConnections int
	// AllowedHosts are accepted in the Host header beside the public URL's, localhost and addresses; * is any.
	AllowedHosts []string
	// TokenReview identifies callers by Kubernetes tokens, AllowAnonymous takes those without any for one and the same.
	TokenReview, AllowAnonymous bool
	// IssuersFile lists OpenID Connect issuers whose access tokens identify callers, and RequiredScopes are what these
	// tokens must have been granted.
	IssuersFile    string
	RequiredScopes []string
	// APIKeysFolder holds descriptions of API keys, one a file.
	APIKeysFolder string
	// Authorization says who may call a tool: AuthorizationRBAC or AuthorizationNone.
	Authorization string
	// MaxBodyBytes bounds the body of a request, MaxWaitingCalls the calls that wait for their results at one time.
	MaxBodyBytes, MaxWaitingCalls int64
	// Limits bound what a caller, a tool and a namespace may use.
	Limits limits.Limits
	// MaxStreamsPerCaller bounds the streams of notifications that one caller may have open at one time, MaxStreams those
	// of all callers. Without identities all callers are one.
	MaxStreamsPerCaller, MaxStreams int64
	// KeysFolder holds the keys that all replicas share, one a file, the newest in the file that sorts last.
	KeysFolder string
	// TolerateMissingName accepts tasks/get and tasks/cancel without the Mcp-Name header.
	TolerateMissingName bool
	// Version of the bridge, as it introduces itself.
	Version string
	// Log is where the bridge writes, and Audit where it writes who did what; the same when nil.
	Log, Audit *slog.Logger
}

// Who may call a tool: those who have the verb call on it in the cluster's RBAC, or all callers that were identified.
const (
	AuthorizationRBAC = "RBAC"
	AuthorizationNone = "None"
)

func (o *Options) auditLog() *slog.Logger {
	if o.Audit != nil {
		return o.Audit
	}
	return o.Log
}

// Validate says what is missing or wrong, naming the flag.
func (o *Options) Validate() error {
	var faults []error
	if !o.TokenReview && !o.AllowAnonymous && o.IssuersFile == "" && o.APIKeysFolder == "" {
		faults = append(faults, errors.New("no source of identities is configured: set --token-review to identify callers by Kubernetes tokens, "+
			"--issuers-file by access tokens of OpenID Connect issuers, --api-keys-folder by API keys, "+
			"or --allow-anonymous to let every caller see every other's tasks"))
	}
	if o.Authorization != AuthorizationRBAC && o.Authorization != AuthorizationNone {
		faults = append(faults, fmt.Errorf("--authorization must be %s or %s", AuthorizationRBAC, AuthorizationNone))
	}
	for _, scope := range o.RequiredScopes {
		if strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) { // RFC 6749, 3.3
			faults = append(faults, fmt.Errorf("--required-scopes: %q is not a scope", scope))
		}
	}
	if len(o.RequiredScopes) > 0 && o.IssuersFile == "" {
		faults = append(faults, errors.New("--required-scopes needs --issuers-file: other credentials have no scopes"))
	}
	o.PublicURL = strings.TrimRight(o.PublicURL, "/")
	if o.PublicURL != "" {
		if u, err := url.Parse(o.PublicURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" || strings.Contains(o.PublicURL, `"`) {
			faults = append(faults, fmt.Errorf("--public-url %q is not an http or https URL without query and fragment", o.PublicURL))
		}
	} else if o.TokenReview || o.IssuersFile != "" {
		faults = append(faults, errors.New("--token-review and --issuers-file need --public-url: tokens must be made for the audience PUBLIC-URL/mcp/NAMESPACE"))
	}
	for _, namespace := range append(slices.Clone(o.Namespaces), o.DefaultNamespace) {
		if namespace != "" && len(validation.IsDNS1123Label(namespace)) > 0 {
			faults = append(faults, fmt.Errorf("%q is not the name of a namespace", namespace))
		}
	}
	if o.DefaultNamespace != "" && len(o.Namespaces) > 0 && !slices.Contains(o.Namespaces, o.DefaultNamespace) {
		faults = append(faults, fmt.Errorf("--default-namespace %q is not among --namespaces", o.DefaultNamespace))
	}
	if o.MaxBodyBytes <= 0 || o.MaxWaitingCalls <= 0 {
		faults = append(faults, errors.New("--max-body-bytes and --max-waiting-calls must be positive"))
	}
	if o.MaxStreamsPerCaller <= 0 || o.MaxStreams <= 0 {
		faults = append(faults, errors.New("--max-streams-per-caller and --max-streams must be positive"))
	}
	if err := o.Limits.Validate(); err != nil {
		faults = append(faults, err)
	}
	if o.MaxConnections <= 0 {
		faults = append(faults, errors.New("--max-connections must be positive"))
	}
	if o.KeysFolder == "" {
		faults = append(faults, errors.New("--keys-folder must be set: what one replica hands out, another must recognise"))
	}
	return errors.Join(faults...)
}
