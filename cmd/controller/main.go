// Command controller is the operator of mcptask: it checks McpTools and runs the Jobs of McpTasks.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/mcptask/mcptask/api/v1alpha1"
	"github.com/mcptask/mcptask/controllers"
	"github.com/mcptask/mcptask/controllers/jobs"
)

type options struct {
	leaderElect    bool
	metricsAddress string
	probeAddress   string
	logLevel       zapcore.Level
	namespaces     []string
	runtime        jobs.Runtime
}

func main() {
	var o options
	flag.BoolVar(&o.leaderElect, "leader-elect", false, "act only while holding a Lease in the own namespace: of several replicas one works")
	flag.StringVar(&o.metricsAddress, "metrics-bind-address", ":8082", "where Prometheus metrics are served; 0 for nowhere")
	flag.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "where /healthz and /readyz are served")
	flag.StringVar(&o.runtime.URL, "runtime-url", "", "the URL of the bridge's runtime port, as Pods reach it; without it no tool can have runtime.enabled")
	flag.StringVar(&o.runtime.Image, "runtime-image", "", "the image of the sidecar of tools with runtime.enabled; it holds /taskrt")
	flag.Func("namespaces", "the namespaces whose tools and tasks are looked after, separated by commas; all when empty", func(value string) error {
		o.namespaces = strings.FieldsFunc(value, func(r rune) bool { return r == ',' })
		return nil
	})
	flag.TextVar(&o.logLevel, "log-level", zapcore.InfoLevel, "debug, info, warn or error")
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.Level(o.logLevel)))
	if err := run(ctrl.SetupSignalHandler(), o); err != nil {
		fmt.Fprintln(os.Stderr, "controller:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the API server: %w", err)
	}
	config.UserAgent = "mcptask-controller"
	// A dry run's warnings are about somebody's template, again and again; its refusals stand in the tool's condition.
	config.WarningHandler = rest.NoWarnings{}
	// The API server's own flow control says how fast is too fast.
	config.QPS, config.Burst = 200, 400
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		Cache:                         watched(o.namespaces),
		Metrics:                       metricsserver.Options{BindAddress: o.metricsAddress},
		HealthProbeBindAddress:        o.probeAddress,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              "mcptask-controller",
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	if err := controllers.Setup(ctx, mgr, o.runtime, time.Now); err != nil {
		return fmt.Errorf("setting up the controllers: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// watched is what the operator keeps in memory, of some namespaces or of all.
func watched(namespaces []string) cache.Options {
	options := controllers.CacheOptions()
	if len(namespaces) > 0 {
		options.DefaultNamespaces = map[string]cache.Config{}
	}
	for _, namespace := range namespaces {
		options.DefaultNamespaces[namespace] = cache.Config{}
	}
	return options
}
