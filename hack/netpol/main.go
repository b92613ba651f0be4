// Command netpol enforces the NetworkPolicies of a cluster whose network plugin does not, as that of hack/cluster. It is
// sigs.k8s.io/kube-network-policies, which decides about the first packet of each connection that the kernel queues for it
// (nfnetlink_queue), on kernels too whose nftables cannot queue: queue.go. Its own command ends at SIGINT alone, which is not how
// Kubernetes ends a Pod: its rules would stay on the node.
//
// It is 0.7.0, not 0.8.0, which needs the container runtime's plugin interface: without that it panics at the first
// address that is no Pod's.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/kube-network-policies/pkg/networkpolicy"
)

func main() {
	node := flag.String("node", os.Getenv("NODE_NAME"), "the name of the node")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, *node); err != nil {
		fmt.Fprintln(os.Stderr, "netpol:", err)
		os.Exit(1)
	}
}

// run enforces until ctx ends, and then removes its rules.
func run(ctx context.Context, node string) (err error) {
	end, err := handOver()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	config, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("finding the API server: %w", err)
	}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("client of the Kubernetes API: %w", err)
	}
	watched := informers.NewSharedInformerFactory(clientset, 0)
	controller, err := networkpolicy.NewController(clientset,
		watched.Networking().V1().NetworkPolicies(), watched.Core().V1().Namespaces(), watched.Core().V1().Pods(),
		nil, nil, nil, nil, // nothing of the newer kinds of policies
		networkpolicy.Config{NodeName: node, QueueID: queue, NFTableName: libraryName})
	if err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	watched.Start(ctx.Done())
	if err := controller.Run(ctx); ctx.Err() == nil { // it removes the rules that it wrote
		return fmt.Errorf("deciding about packets: %w", err)
	}
	return nil
}
