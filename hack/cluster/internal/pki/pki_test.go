package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCertificates(t *testing.T) {
	authority, err := NewAuthority("ca")
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewAuthority("other")
	if err != nil {
		t.Fatal(err)
	}
	server, err := authority.Server("api", "kubernetes.default", "10.96.0.1")
	if err != nil {
		t.Fatal(err)
	}
	client, err := authority.Client("system:node:node1", "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(authority.certificate)
	for _, host := range []string{"kubernetes.default", "10.96.0.1"} {
		if _, err := server.certificate.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
			t.Error(err)
		}
	}
	asClient := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if _, err := client.certificate.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: asClient}); err != nil {
		t.Error(err)
	}
	if _, err := server.certificate.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: asClient}); err == nil {
		t.Error("a server's certificate is a client's, too")
	}
	strangers := x509.NewCertPool()
	strangers.AddCert(other.certificate)
	if _, err := server.certificate.Verify(x509.VerifyOptions{Roots: strangers}); err == nil {
		t.Error("another authority's certificate was taken")
	}
	if client.certificate.Subject.CommonName != "system:node:node1" || client.certificate.Subject.Organization[0] != "system:nodes" {
		t.Errorf("the client is %s", client.certificate.Subject)
	}
}

func TestFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	authority, err := NewAuthority("ca")
	if err != nil {
		t.Fatal(err)
	}
	if err := authority.Write(dir, "ca"); err != nil {
		t.Fatal(err)
	}
	if _, err := tls.LoadX509KeyPair(filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")); err != nil {
		t.Error(err)
	}
	if err := WriteServiceAccountKeys(dir, "sa"); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "kubeconfig")
	if err := WriteKubeconfig(file, "ct1", "https://172.30.0.1:6443", authority, authority); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"current-context: ct1", "server: https://172.30.0.1:6443", "certificate-authority-data: " + base64.StdEncoding.EncodeToString(authority.certPEM)} {
		if !strings.Contains(string(content), want) {
			t.Errorf("the kubeconfig lacks %q", want)
		}
	}
	for _, secret := range []string{"ca.key", "sa.key", "kubeconfig"} {
		if info, err := os.Stat(filepath.Join(dir, secret)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", secret, info.Mode(), err)
		}
	}
}
