package incluster

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// Labels are those of the bridge's Service and Deployment.
	Labels = "app.kubernetes.io/name=mcptask,app.kubernetes.io/component=bridge"
	// DefaultNamespace is where the bridge is looked for first.
	DefaultNamespace = "mcptask-system"
)

// Bridge is the bridge of a cluster.
type Bridge struct {
	// PublicURL is the URL under which callers reach the bridge, without a slash at the end.
	PublicURL string

	service corev1.Service
}

// Find looks for the bridge in a namespace. When that is empty it looks in DefaultNamespace, then everywhere.
func (c *Cluster) Find(ctx context.Context, namespace string) (*Bridge, error) {
	service, err := c.findService(ctx, namespace)
	if err != nil {
		return nil, fmt.Errorf("looking for the bridge: %w", err)
	}
	public, err := c.publicURL(ctx, service)
	if err != nil {
		return nil, fmt.Errorf("asking the bridge's Deployment for its --public-url: %w", err)
	}
	return &Bridge{PublicURL: public, service: *service}, nil
}

func (c *Cluster) findService(ctx context.Context, namespace string) (*corev1.Service, error) {
	places := []string{namespace}
	if namespace == "" {
		places = []string{DefaultNamespace, metav1.NamespaceAll}
	}
	for _, place := range places {
		found, err := c.client.CoreV1().Services(place).List(ctx, metav1.ListOptions{LabelSelector: Labels})
		if apierrors.IsForbidden(err) && place == metav1.NamespaceAll {
			return nil, fmt.Errorf("there is none in the namespace %s, and the others may not be looked at: "+
				"name the right one with --bridge-namespace", DefaultNamespace)
		}
		if err != nil {
			return nil, err
		}
		switch len(found.Items) {
		case 0:
			continue
		case 1:
			return &found.Items[0], nil
		}
		names := []string{}
		for _, service := range found.Items {
			names = append(names, service.Namespace+"/"+service.Name)
		}
		return nil, fmt.Errorf("there are several: %s; name one's namespace with --bridge-namespace, or its URL with --server",
			strings.Join(names, ", "))
	}
	if namespace != "" {
		return nil, fmt.Errorf("the namespace %s has no Service with the labels %s", namespace, Labels)
	}
	return nil, fmt.Errorf("no namespace of the cluster has a Service with the labels %s: is mcptask installed?", Labels)
}

// publicURL is what the bridge was told with --public-url; for a bridge that was told nothing, its Service's URL.
func (c *Cluster) publicURL(ctx context.Context, service *corev1.Service) (string, error) {
	found, err := c.client.AppsV1().Deployments(service.Namespace).List(ctx, metav1.ListOptions{LabelSelector: Labels})
	if err != nil {
		return "", err
	}
	for _, deployment := range found.Items {
		for _, container := range deployment.Spec.Template.Spec.Containers {
			for _, argument := range container.Args {
				if value, ok := strings.CutPrefix(argument, "--public-url="); ok && value != "" {
					return strings.TrimRight(value, "/"), nil
				}
			}
		}
	}
	return fmt.Sprintf("http://%s.%s.svc.cluster.local", service.Name, service.Namespace), nil
}

// Audience is what tokens for the tools of a namespace must be made for.
func (b *Bridge) Audience(namespace string) string { return b.PublicURL + "/mcp/" + namespace }

// Endpoint is the URL at which a Forwarder's connections reach the tools of a namespace. It names the public host, as
// the bridge may accept no other, but the connection ends at the bridge itself: no path of a proxy before it, and TLS only
// where the bridge serves that itself.
func (b *Bridge) Endpoint(namespace string) (string, error) {
	public, err := url.Parse(b.PublicURL)
	if err != nil || public.Host == "" {
		return "", errors.New("the bridge's --public-url is not a URL: " + b.PublicURL)
	}
	scheme := "http"
	if ports := b.service.Spec.Ports; len(ports) > 0 && ports[0].Name == "https" {
		scheme = "https"
	}
	return (&url.URL{Scheme: scheme, Host: public.Host, Path: "/mcp/" + namespace}).String(), nil
}
