package incluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// Forwarder makes connections to a bridge through the API server. When its Pod goes, the next connection is to another.
type Forwarder struct {
	cluster *Cluster
	bridge  *Bridge

	mu   sync.Mutex
	open *forward
}

// NewForwarder makes a Forwarder. Close ends what it opened.
func (c *Cluster) NewForwarder(bridge *Bridge) *Forwarder {
	return &Forwarder{cluster: c, bridge: bridge}
}

// HTTPClient is a client all of whose requests go to the bridge, whatever the host of their URL.
func (f *Forwarder) HTTPClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return f.dial(ctx) },
		// The API server, whose certificate was checked, leads to the Pod. That of the bridge is made for its public
		// name, perhaps by an authority that is not known here, and would add nothing.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
	}}
}

// Close ends the connections.
func (f *Forwarder) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open != nil {
		f.open.stop()
	}
}

func (f *Forwarder) dial(ctx context.Context) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open != nil && !f.open.alive() {
		f.open = nil
	}
	if f.open == nil {
		opened, err := f.start(ctx)
		if err != nil {
			return nil, err
		}
		f.open = opened
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", f.open.address)
}

// forward is a local port that leads to a Pod.
type forward struct {
	address string
	stop    context.CancelFunc
	ended   chan struct{} // closed after err is set
	err     error
}

func (w *forward) alive() bool {
	select {
	case <-w.ended:
		return false
	default:
		return true
	}
}

// start opens a port on the loopback interface that leads to a ready Pod.
func (f *Forwarder) start(ctx context.Context) (*forward, error) {
	pod, port, err := f.pod(ctx)
	if err != nil {
		return nil, err
	}
	dialer, err := f.dialer(pod)
	if err != nil {
		return nil, fmt.Errorf("port-forwarding to Pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	// Not ctx: the port outlives the request that opens it.
	lifetime, stop := context.WithCancel(context.Background())
	ready := make(chan struct{})
	ports := []string{":" + strconv.Itoa(int(port))}
	forwarder, err := portforward.NewOnAddressesForStreamingWithContext(lifetime, dialer, []string{"127.0.0.1"}, ports, ready, io.Discard, io.Discard)
	if err != nil {
		stop()
		return nil, fmt.Errorf("port-forwarding to Pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	w := &forward{stop: stop, ended: make(chan struct{})}
	go func() {
		w.err = forwarder.ForwardPorts()
		close(w.ended)
	}()
	select {
	case <-ready:
	case <-w.ended:
		stop()
		return nil, fmt.Errorf("port-forwarding to Pod %s/%s: %w", pod.Namespace, pod.Name, w.err)
	case <-ctx.Done():
		stop()
		return nil, ctx.Err()
	}
	local, err := forwarder.GetPorts()
	if err != nil || len(local) == 0 {
		stop()
		return nil, fmt.Errorf("port-forwarding to Pod %s/%s: %w", pod.Namespace, pod.Name, errors.Join(err, w.err))
	}
	w.address = net.JoinHostPort("127.0.0.1", strconv.Itoa(int(local[0].Local)))
	return w, nil
}

// dialer opens a stream to a Pod as kubectl does: over a WebSocket, or over SPDY where the API server, or a proxy
// before it, has no WebSockets.
func (f *Forwarder) dialer(pod *corev1.Pod) (httpstream.Dialer, error) {
	url := f.cluster.client.CoreV1().RESTClient().Post().
		Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(f.cluster.config)
	if err != nil {
		return nil, err
	}
	overSPDY := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	overWebSocket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, f.cluster.config)
	if err != nil {
		return nil, err
	}
	return portforward.NewFallbackDialerForStreaming(overWebSocket, overSPDY, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

// pod picks one of the Service's ready Pods, and its port.
func (f *Forwarder) pod(ctx context.Context) (*corev1.Pod, int32, error) {
	service := &f.bridge.service
	pods, err := f.cluster.client.CoreV1().Pods(service.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: labels.SelectorFromSet(service.Spec.Selector).String(),
	})
	if err != nil {
		return nil, 0, fmt.Errorf("looking for the bridge's Pods: %w", err)
	}
	for _, i := range rand.Perm(len(pods.Items)) { //nolint:gosec // spreads calls over Pods; nobody gains from a guess
		pod := &pods.Items[i]
		if !ready(pod) {
			continue
		}
		port, ok := targetPort(service, pod)
		if !ok {
			return nil, 0, fmt.Errorf("the Service %s/%s has no port that Pod %s serves", service.Namespace, service.Name, pod.Name)
		}
		return pod, port, nil
	}
	return nil, 0, fmt.Errorf("none of the %d Pods of Service %s/%s is ready", len(pods.Items), service.Namespace, service.Name)
}

func ready(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil
		}
	}
	return false
}

// targetPort is the Pod's port behind the Service's first port, which for the bridge is its only one.
func targetPort(service *corev1.Service, pod *corev1.Pod) (int32, bool) {
	if len(service.Spec.Ports) == 0 {
		return 0, false
	}
	target := service.Spec.Ports[0].TargetPort
	if target.Type == intstr.Int {
		return target.IntVal, target.IntVal > 0
	}
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == target.StrVal {
				return port.ContainerPort, true
			}
		}
	}
	return 0, false
}
