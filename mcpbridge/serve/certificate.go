package serve

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// Certificate is a certificate and its key in a folder, as a Secret of type kubernetes.io/tls is mounted: tls.crt and
// tls.key. A changed pair is taken up without a restart, at the latest after ten seconds; while the files do not fit each
// other, the last pair that did stays.
type Certificate struct{ watcher *certwatcher.CertWatcher }

// ReadCertificate reads the pair.
func ReadCertificate(folder string) (*Certificate, error) {
	watcher, err := certwatcher.New(filepath.Join(folder, corev1.TLSCertKey), filepath.Join(folder, corev1.TLSPrivateKeyKey))
	if err != nil {
		return nil, fmt.Errorf("reading the certificate: %w", err)
	}
	return &Certificate{watcher}, nil
}

// Watch takes up changes until ctx ends.
func (c *Certificate) Watch(ctx context.Context) error {
	if err := c.watcher.Start(ctx); err != nil {
		return fmt.Errorf("watching the certificate: %w", err)
	}
	return nil
}

// Listener accepts TLS of version 1.2 and later. It offers HTTP/1.1 alone: every request then has a connection of its own,
// on which the limits of a Server hold. HTTP/2 would put many on one, with one limit for all.
func (c *Certificate) Listener(inner net.Listener) net.Listener {
	return tls.NewListener(inner, &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"},
		GetCertificate: c.watcher.GetCertificate,
	})
}
