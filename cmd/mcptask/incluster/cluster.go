// Package incluster finds the bridge of a Kubernetes cluster and reaches it through the API server, as kubectl
// port-forward does, and asks the API server for tokens that the bridge accepts.
package incluster

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"k8s.io/client-go/kubernetes"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubeconfigs may name any of these
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Cluster is the cluster of a kubeconfig.
type Cluster struct {
	// Namespace is the namespace that is worked in.
	Namespace string

	client kubernetes.Interface
	config *rest.Config
}

// Load reads a kubeconfig: the file of that path, or what kubectl would read when it is empty. An empty context is the
// current one, an empty namespace the one of the context.
func Load(path, context, namespace string) (*Cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	overrides := &clientcmd.ConfigOverrides{CurrentContext: context}
	overrides.Context.Namespace = namespace
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		if named := cmp.Or(path, os.Getenv(clientcmd.RecommendedConfigPathEnvVar)); named != "" {
			return nil, fmt.Errorf("there is no cluster in the kubeconfig %s", named)
		}
		return nil, errors.New("there is no kubeconfig to find a cluster with: set KUBECONFIG or --kubeconfig")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	name, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("using the kubeconfig: %w", err)
	}
	return &Cluster{Namespace: name, client: client, config: config}, nil
}
