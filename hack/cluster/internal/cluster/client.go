package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// client asks the API server as the administrator. It reads a handful of
// objects, for which a Kubernetes client library would be much to compile.
type client struct {
	http *http.Client
	url  string
}

func (c *Cluster) client(s *state) (*client, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(c.pki(), "admin.crt"), filepath.Join(c.pki(), "admin.key"))
	if err != nil {
		return nil, fmt.Errorf("read the administrator's certificate: %w", err)
	}
	authority, err := os.ReadFile(filepath.Join(c.pki(), "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("read the cluster's authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, errors.New("the cluster's authority is not a certificate")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}}
	return &client{http: &http.Client{Timeout: 2 * time.Second, Transport: transport}, url: s.url()}, nil
}

// get reads an object into a value, or drops it if that is nil.
func (c *client) get(ctx context.Context, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, nil)
	if err != nil {
		return err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", path, response.Status)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	return nil
}

// ready is nil when the API server says that it is ready.
func (c *client) ready(ctx context.Context) error { return c.get(ctx, "/readyz", nil) }

// node is the part of a Node that tells whether it is fit for Pods.
type node struct {
	Spec   struct{ Taints []struct{ Key string } }
	Status struct {
		Conditions []struct {
			Type, Status, Message string
			LastHeartbeatTime     time.Time
		}
	}
}

// nodeReady is nil when a node has said, not before the given time, that it is
// ready, and has lost the taints of one that is not.
func (c *client) nodeReady(ctx context.Context, name string, since time.Time) error {
	var n node
	if err := c.get(ctx, "/api/v1/nodes/"+name, &n); err != nil {
		return err
	}
	for _, condition := range n.Status.Conditions {
		if condition.Type != "Ready" {
			continue
		}
		if condition.Status != "True" {
			return fmt.Errorf("%s is not Ready: %s", name, condition.Message)
		}
		if condition.LastHeartbeatTime.Before(since.Truncate(time.Second)) {
			return fmt.Errorf("%s has not been heard of since %s", name, condition.LastHeartbeatTime.Format(time.TimeOnly))
		}
		for _, t := range n.Spec.Taints {
			if strings.HasPrefix(t.Key, "node.kubernetes.io/") && t.Key != "node.kubernetes.io/unschedulable" {
				return fmt.Errorf("%s has the taint %s", name, t.Key)
			}
		}
		return nil
	}
	return fmt.Errorf("%s has not said whether it is Ready", name)
}
