package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// testSpec is an image with a program, a text file and certificates.
func testSpec(t *testing.T) Spec {
	t.Helper()
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return file
	}
	return Spec{
		Files: []File{
			{write("server", "program", 0o700), "/bin/server"},
			{write("notes", "text", 0o600), "/usr/share/notes"},
		},
		Entrypoint:     []string{"/bin/server", "--listen"},
		Env:            []string{"A=b"},
		User:           "1234:5678",
		CACertificates: write("ca", "authorities", 0o600),
		Platform:       v1.Platform{OS: "linux", Architecture: "arm64"},
	}
}

// entries are the headers and contents of a tar by name.
func entries(t *testing.T, r io.Reader) (map[string]*tar.Header, map[string]string) {
	t.Helper()
	headers, contents := map[string]*tar.Header{}, map[string]string{}
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return headers, contents
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if headers[h.Name] != nil {
			t.Errorf("%s is there twice", h.Name)
		}
		headers[h.Name], contents[h.Name] = h, string(content)
	}
}

func TestContents(t *testing.T) {
	img, err := New(testSpec(t))
	if err != nil {
		t.Fatal(err)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("the layers are %v, %v", layers, err)
	}
	r, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	headers, contents := entries(t, r)
	for name, want := range map[string]struct {
		mode    int64
		content string
	}{
		"bin/server":                        {0o755, "program"},
		"usr/share/notes":                   {0o644, "text"},
		"etc/ssl/certs/ca-certificates.crt": {0o644, "authorities"},
		"tmp/":                              {0o1777, ""},
		"bin/":                              {0o755, ""},
		"etc/group":                         {0o644, "root:x:0:\nnogroup:x:65534:\nnonroot:x:65532:\nuser:x:5678:\n"},
	} {
		h := headers[name]
		if h == nil {
			t.Errorf("no %s in the image", name)
			continue
		}
		if h.Mode != want.mode || contents[name] != want.content || !h.ModTime.Equal(epoch) || h.Uid != 0 || h.Gid != 0 {
			t.Errorf("%s is %+v with %q", name, h, contents[name])
		}
	}
	if !strings.Contains(contents["etc/passwd"], "user:x:1234:1234:user:/:/sbin/nologin\n") {
		t.Errorf("/etc/passwd is %q", contents["etc/passwd"])
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.OS != "linux" || config.Architecture != "arm64" || config.Config.User != "1234:5678" ||
		strings.Join(config.Config.Entrypoint, " ") != "/bin/server --listen" || config.Config.Env[1] != "A=b" {
		t.Errorf("the configuration is %+v", config)
	}
}

func TestRefusals(t *testing.T) {
	for what, change := range map[string]func(*Spec){
		"a user's name":    func(s *Spec) { s.User = "root" },
		"no user":          func(s *Spec) { s.User = "" },
		"a group's name":   func(s *Spec) { s.User = "1:wheel" },
		"a file twice":     func(s *Spec) { s.Files = append(s.Files, s.Files[0]) },
		"a generated file": func(s *Spec) { s.Files[0].Target = "/etc/passwd" },
		"a missing file":   func(s *Spec) { s.Files[0].Source += "-missing" },
		"a folder":         func(s *Spec) { s.Files[0].Source = filepath.Dir(s.Files[0].Source) },
		"no certificates":  func(s *Spec) { s.CACertificates += "-missing" },
	} {
		spec := testSpec(t)
		change(&spec)
		if _, err := New(spec); err == nil {
			t.Errorf("%s was taken", what)
		}
	}
	for _, arg := range []string{"", "file", "file=", "=/x", "file=x", "file=/x/../y", "file=/"} {
		if f, err := ParseFile(arg); err == nil {
			t.Errorf("%q was read as %+v", arg, f)
		}
	}
}

func writeArchive(t *testing.T, tag string) []byte {
	t.Helper()
	img, err := New(testSpec(t))
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.NewTag(tag)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := WriteArchive(file, img, ref); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(file), ".*")); err != nil || left != nil {
		t.Errorf("left behind: %v %v", left, err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestArchive(t *testing.T) {
	archive := writeArchive(t, "mcptask.dev/server:1.2")
	if !bytes.Equal(archive, writeArchive(t, "mcptask.dev/server:1.2")) {
		t.Error("the same image gives other bytes")
	}
	_, contents := entries(t, bytes.NewReader(archive))
	if !strings.Contains(contents["oci-layout"], "imageLayoutVersion") {
		t.Errorf("oci-layout is %q", contents["oci-layout"])
	}
	var index v1.IndexManifest
	if err := json.Unmarshal([]byte(contents["index.json"]), &index); err != nil {
		t.Fatal(err)
	}
	if len(index.Manifests) != 1 {
		t.Fatalf("the index is %+v", index)
	}
	m := index.Manifests[0]
	if m.Annotations["io.containerd.image.name"] != "mcptask.dev/server:1.2" || m.Annotations["org.opencontainers.image.ref.name"] != "1.2" ||
		m.Platform.Architecture != "arm64" || m.ArtifactType != "" {
		t.Errorf("the manifest is described as %+v", m)
	}
}

func TestPush(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(file, writeArchive(t, "mcptask.dev/server:1.2"), 0o600); err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://") + "/team/server:1.2")
	if err != nil {
		t.Fatal(err)
	}
	digest, err := Push(t.Context(), file, ref)
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Image(ref)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := pulled.Digest(); err != nil || got.String() != digest {
		t.Errorf("the registry has %s, %v; pushed %s", got, err, digest)
	}
	if _, err := Push(t.Context(), os.Args[0], ref); err == nil {
		t.Error("a file that is no archive was pushed")
	}
}
