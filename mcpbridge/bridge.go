// Package mcpbridge speaks MCP to agents and Kubernetes to the cluster: it makes McpTasks of tool calls and tells what
// became of them. Any number of replicas may run; all that they know is in the API server.
package mcpbridge

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/mcpbridge/audit"
	"github.com/mcptask/mcptask/mcpbridge/auth"
	"github.com/mcptask/mcptask/mcpbridge/endpoint"
	"github.com/mcptask/mcptask/mcpbridge/runtimeport"
	"github.com/mcptask/mcptask/mcpbridge/seal"
	"github.com/mcptask/mcptask/mcpbridge/tasks"
	"github.com/mcptask/mcptask/mcpbridge/wire"
)

// The bridge's requests to the API server are few; bursts of calls must not queue behind client-side throttling.
const (
	clientQPS   = 200
	clientBurst = 400
	userAgent   = "mcptask-bridge"
)

// Bridge is one replica.
type Bridge struct {
	options  Options
	registry *prometheus.Registry
	metrics  *endpoint.Metrics
	endpoint *endpoint.Endpoint
	runtime  *runtimeport.Port
	store    *tasks.Store
	cache    cache.Cache
}

// New makes a replica for the cluster of the configuration. It talks to nobody before Run.
func New(config *rest.Config, options Options) (*Bridge, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = clientQPS, clientBurst
	config.UserAgent = userAgent + "/" + options.Version
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("registering the API types: %w", err)
		}
	}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("HTTP client of the Kubernetes API: %w", err)
	}
	direct, err := client.New(config, client.Options{Scheme: scheme, HTTPClient: httpClient})
	if err != nil {
		return nil, fmt.Errorf("client of the Kubernetes API: %w", err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	metrics := endpoint.NewMetrics(registry)
	store := tasks.NewStore(func(lag time.Duration) { metrics.CacheLag.Observe(lag.Seconds()) })
	watched, err := newCache(config, cache.Options{HTTPClient: httpClient, Scheme: scheme, Mapper: direct.RESTMapper()}, options.Namespaces, store)
	if err != nil {
		return nil, err
	}
	clientset, err := kubernetes.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("client for reviews of tokens and rights: %w", err)
	}
	reviews := reviewer{clientset}
	sources, issuers, err := newSources(reviews, options)
	if err != nil {
		return nil, err
	}
	keys, err := seal.LoadKeys(options.KeysFolder)
	if err != nil {
		return nil, fmt.Errorf("--keys-folder: %w", err)
	}
	audits := audit.New(options.auditLog(), registry)
	api := tasks.Client{Client: direct}
	mcp := endpoint.New(endpoint.Config{
		PublicURL: options.PublicURL, DefaultNamespace: options.DefaultNamespace, Namespaces: options.Namespaces,
		AllowedHosts: options.AllowedHosts, MaxBodyBytes: options.MaxBodyBytes, MaxWaitingCalls: options.MaxWaitingCalls,
		Limits:              options.Limits,
		MaxStreamsPerCaller: options.MaxStreamsPerCaller, MaxStreams: options.MaxStreams,
		TolerateMissingName: options.TolerateMissingName,
		Keys:                keys,
		Server:              wire.ServerInfo{Name: userAgent, Version: options.Version},
		Authenticator:       sources, AuthorizationServers: issuers, Scopes: options.RequiredScopes,
		Access: newAccess(reviews, options), Audit: audits, Store: store, API: api, Secrets: api, Log: options.Log, Metrics: metrics,
	})
	return &Bridge{
		options: options, registry: registry, metrics: metrics, store: store, cache: watched,
		endpoint: mcp,
		// Pods show their own tokens, whoever may call tools.
		runtime: runtimeport.New(runtimeport.Config{
			Namespaces: options.Namespaces, Tokens: auth.NewTokenReview(reviews), Store: store, API: api, Secrets: api,
			MaxResultBytes: func(task *v1alpha1.McpTask) int64 {
				if tool := mcp.Tools.OfTask(task); tool != nil {
					return tool.Object.Spec.Result.MaxBytes
				}
				return 0
			},
			Log: options.Log, Audit: audits, Registry: registry,
		}),
	}, nil
}

// newCache watches tools and tasks and keeps of them what the bridge reads.
func newCache(config *rest.Config, options cache.Options, namespaces []string, store *tasks.Store) (cache.Cache, error) {
	options.ByObject = map[client.Object]cache.ByObject{
		&v1alpha1.McpTask{}: {Transform: store.Strip},
		&v1alpha1.McpTool{}: {Transform: stripTool},
	}
	for _, namespace := range namespaces {
		if options.DefaultNamespaces == nil {
			options.DefaultNamespaces = map[string]cache.Config{}
		}
		options.DefaultNamespaces[namespace] = cache.Config{}
	}
	watched, err := cache.New(config, options)
	if err != nil {
		return nil, fmt.Errorf("cache of tools and tasks: %w", err)
	}
	return watched, nil
}

// stripTool drops what the bridge never reads: how the work is done is the controller's business.
func stripTool(object any) (any, error) {
	if tool, ok := object.(*v1alpha1.McpTool); ok {
		tool.ManagedFields = nil
		tool.Spec.JobTemplate = batchv1.JobTemplateSpec{}
	}
	return object, nil
}

// watch feeds the store and the catalogue, and returns what is needed to know when they are complete.
func (b *Bridge) watch(ctx context.Context) ([]toolscache.InformerSynced, error) {
	var synced []toolscache.InformerSynced
	for _, kind := range []struct {
		object  client.Object
		handler toolscache.ResourceEventHandler
	}{
		{&v1alpha1.McpTool{}, handler(b, b.endpoint.Tools.Observe, b.endpoint.Tools.Forget)},
		{&v1alpha1.McpTask{}, handler(b, b.store.Observe, func(task *v1alpha1.McpTask) {
			b.store.Forget(types.NamespacedName{Namespace: task.Namespace, Name: task.Name})
		})},
	} {
		informer, err := b.cache.GetInformer(ctx, kind.object, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watching %T: %w", kind.object, err)
		}
		registration, err := informer.AddEventHandler(kind.handler)
		if err != nil {
			return nil, fmt.Errorf("watching %T: %w", kind.object, err)
		}
		synced = append(synced, registration.HasSynced)
	}
	return synced, nil
}

func handler[T client.Object](b *Bridge, observe, forget func(T)) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			b.metrics.CacheEvent.SetToCurrentTime()
			observe(object.(T))
		},
		UpdateFunc: func(_, object any) {
			b.metrics.CacheEvent.SetToCurrentTime()
			observe(object.(T))
		},
		DeleteFunc: func(object any) {
			b.metrics.CacheEvent.SetToCurrentTime()
			if last, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			if deleted, ok := object.(T); ok {
				forget(deleted)
			}
		},
	}
}
