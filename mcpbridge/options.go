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
	// AllowedHosts are the accepted values of the Host header; all when empty.
	AllowedHosts []string
	// TokenReview identifies callers by Kubernetes tokens, AllowAnonymous takes those without any for one and the same.
	TokenReview, AllowAnonymous bool
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
	// Log is where the bridge writes.
	Log *slog.Logger
}

// Validate says what is missing or wrong, naming the flag.
func (o *Options) Validate() error {
	var faults []error
	if !o.TokenReview && !o.AllowAnonymous {
		faults = append(faults, errors.New("no source of identities is configured: set --token-review to identify callers by Kubernetes tokens, "+
			"or --allow-anonymous to let every caller see every other's tasks"))
	}
	o.PublicURL = strings.TrimRight(o.PublicURL, "/")
	if o.PublicURL != "" {
		if u, err := url.Parse(o.PublicURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			faults = append(faults, fmt.Errorf("--public-url %q is not an http or https URL", o.PublicURL))
		}
	} else if o.TokenReview {
		faults = append(faults, errors.New("--token-review needs --public-url: tokens must be made for the audience PUBLIC-URL/mcp/NAMESPACE"))
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
	if o.KeysFolder == "" {
		faults = append(faults, errors.New("--keys-folder must be set: what one replica hands out, another must recognise"))
	}
	return errors.Join(faults...)
}
