// Package image makes container images from static binaries: one layer, no
// base image, no shell, no container engine, and the same bytes every time.
package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// NonRoot is the user that an image runs as unless told otherwise.
const NonRoot = "65532:65532"

// bundle is where programs look for certificate authorities on most systems.
const bundle = "/etc/ssl/certs/ca-certificates.crt"

// epoch is the time of everything in an image: equal inputs give equal bytes.
var epoch = time.Unix(0, 0).UTC()

// File is one file of an image.
type File struct {
	Source string // path on this machine
	Target string // absolute path in the image
}

// ParseFile reads "SRC=/dst".
func ParseFile(s string) (File, error) {
	source, target, ok := strings.Cut(s, "=")
	if !ok || source == "" || !path.IsAbs(target) || path.Clean(target) != target || target == "/" {
		return File{}, fmt.Errorf("%q is not SRC=/dst with a clean absolute path in the image", s)
	}
	return File{Source: source, Target: target}, nil
}

// Spec says what is in an image.
type Spec struct {
	Files          []File
	Entrypoint     []string
	Env            []string // NAME=value; PATH is there already
	User           string   // UID[:GID], numeric, so that runAsNonRoot can be checked
	CACertificates string   // file of certificate authorities, or empty for none
	Platform       v1.Platform
}

// New makes the image that a spec describes.
func New(spec Spec) (v1.Image, error) {
	content, err := layer(spec)
	if err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	l, err := tarball.LayerFromOpener(open, tarball.WithCompressionLevel(gzip.BestSpeed),
		tarball.WithCompressedCaching, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("compress the layer: %w", err)
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.Append(base, mutate.Addendum{Layer: l, MediaType: types.OCILayer,
		History: v1.History{Created: v1.Time{Time: epoch}, CreatedBy: "image build"}})
	if err != nil {
		return nil, fmt.Errorf("add the layer: %w", err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read the image's configuration: %w", err)
	}
	config = config.DeepCopy()
	config.Created = v1.Time{Time: epoch}
	config.OS, config.Architecture, config.Variant = spec.Platform.OS, spec.Platform.Architecture, spec.Platform.Variant
	config.Config.Entrypoint = spec.Entrypoint
	config.Config.Env = append([]string{"PATH=/usr/local/bin:/usr/bin:/bin:/"}, spec.Env...)
	config.Config.User = spec.User
	config.Config.WorkingDir = "/"
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return nil, fmt.Errorf("set the image's configuration: %w", err)
	}
	return img, nil
}

// layer is the tar of an image's only layer.
func layer(spec Spec) ([]byte, error) {
	accounts, err := accountsFor(spec.User)
	if err != nil {
		return nil, err
	}
	w := newLayerWriter()
	for _, folder := range []string{"/dev", "/etc", "/proc", "/sys", "/var"} {
		w.folder(folder, 0o755)
	}
	w.folder("/tmp", 0o777|isSticky)
	w.file("/etc/passwd", accounts.passwd(), 0o644)
	w.file("/etc/group", accounts.group(), 0o644)
	if spec.CACertificates != "" {
		content, err := os.ReadFile(spec.CACertificates)
		if err != nil {
			return nil, fmt.Errorf("read the CA certificates: %w", err)
		}
		w.file(bundle, content, 0o644)
	}
	for _, f := range spec.Files {
		content, mode, err := read(f.Source)
		if err != nil {
			return nil, err
		}
		w.file(f.Target, content, mode)
	}
	return w.close()
}

// read returns a file's bytes and 0755 or 0644: the rest of its mode depends
// on the umask of whoever built it.
func read(name string) ([]byte, int64, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, 0, fmt.Errorf("read a file for the image: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s is not a regular file", name)
	}
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, 0, fmt.Errorf("read a file for the image: %w", err)
	}
	if info.Mode()&0o111 != 0 {
		return content, 0o755, nil
	}
	return content, 0o644, nil
}

// isSticky is the sticky bit as tar writes it.
const isSticky = 0o1000

// layerWriter writes files and their parent folders, each once.
type layerWriter struct {
	buffer bytes.Buffer
	tar    *tar.Writer
	seen   map[string]bool
	err    error
}

func newLayerWriter() *layerWriter {
	w := &layerWriter{seen: map[string]bool{"/": true}}
	w.tar = tar.NewWriter(&w.buffer)
	return w
}

func (w *layerWriter) folder(name string, mode int64) {
	if w.seen[name] {
		return
	}
	w.folder(path.Dir(name), 0o755)
	w.add(&tar.Header{Name: strings.TrimPrefix(name, "/") + "/", Typeflag: tar.TypeDir, Mode: mode}, nil)
	w.seen[name] = true
}

func (w *layerWriter) file(name string, content []byte, mode int64) {
	if w.seen[name] && w.err == nil {
		w.err = fmt.Errorf("%s is in the image twice", name)
	}
	w.folder(path.Dir(name), 0o755)
	w.add(&tar.Header{Name: strings.TrimPrefix(name, "/"), Typeflag: tar.TypeReg, Mode: mode, Size: int64(len(content))}, content)
	w.seen[name] = true
}

func (w *layerWriter) add(header *tar.Header, content []byte) {
	if w.err != nil {
		return
	}
	header.ModTime, header.Format = epoch, tar.FormatUSTAR
	if w.err = w.tar.WriteHeader(header); w.err == nil {
		_, w.err = w.tar.Write(content)
	}
}

func (w *layerWriter) close() ([]byte, error) {
	if w.err == nil {
		w.err = w.tar.Close()
	}
	if w.err != nil {
		return nil, fmt.Errorf("write the layer: %w", w.err)
	}
	return w.buffer.Bytes(), nil
}
