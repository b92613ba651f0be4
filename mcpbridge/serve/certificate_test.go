package serve

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writePair puts a new self-signed pair where a Secret would be mounted.
func writePair(t *testing.T, folder string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "mcp.example.com"},
		DNSNames: []string{"mcp.example.com"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: der}, "tls.key": {Type: "PRIVATE KEY", Bytes: private}} {
		written := filepath.Join(folder, "."+name)
		if err := os.WriteFile(written, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(written, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
}

func shake(address string, config *tls.Config) (*tls.Conn, error) {
	config.InsecureSkipVerify = true
	return tls.Dial("tcp", address, config)
}

func TestCertificateIsServedAndTakenUpWhenItChanges(t *testing.T) {
	folder := t.TempDir()
	writePair(t, folder, 1)
	certificate, err := ReadCertificate(folder)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- certificate.Watch(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	limits := short
	limits.Idle, limits.Connections = patience, 10
	r := start(t, limits, certificate)

	old, err := shake(r.address, &tls.Config{NextProtos: []string{"h2", "http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	ask(t, old)
	if state := old.ConnectionState(); state.NegotiatedProtocol != "http/1.1" || state.Version != tls.VersionTLS13 {
		t.Errorf("speaks %s over TLS %x", state.NegotiatedProtocol, state.Version)
	}
	if _, err := shake(r.address, &tls.Config{MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 is spoken")
	}

	writePair(t, folder, 2)
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		now, err := shake(r.address, &tls.Config{})
		if err != nil {
			t.Fatal(err)
		}
		serial := now.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
		_ = now.Close()
		if serial == 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the certificate is still number %d", serial)
		}
	}
	ask(t, old) // open connections go on
}

// A handshake has the time that headers have, and plain HTTP is told so.
func TestWhoDoesNotSpeakTLSIsCutOff(t *testing.T) {
	folder := t.TempDir()
	writePair(t, folder, 1)
	certificate, err := ReadCertificate(folder)
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, short, certificate)
	silent := dial(t, r.address)
	if _, err := io.ReadAll(silent); err != nil {
		t.Errorf("a client that says nothing: %v", err)
	}
	plain := dial(t, r.address)
	if _, err := io.WriteString(plain, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if answer, _ := io.ReadAll(plain); !strings.Contains(string(answer), "400 Bad Request") {
		t.Errorf("plain HTTP is answered with %q", answer)
	}
}

func TestPairThatIsMissing(t *testing.T) {
	if _, err := ReadCertificate(t.TempDir()); err == nil || !strings.Contains(err.Error(), "tls.crt") {
		t.Errorf("got %v", err)
	}
}
