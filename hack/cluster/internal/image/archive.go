package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// nameAnnotation is what containerd names an imported image by.
const nameAnnotation = "io.containerd.image.name"

// refAnnotation is the tag, of the OCI image layout.
const refAnnotation = "org.opencontainers.image.ref.name"

// WriteArchive writes an image as an OCI image layout in a tar file, under the
// name that "ctr images import" and "kind load image-archive" will give it. The
// file appears whole or not at all.
func WriteArchive(file string, img v1.Image, tag name.Tag) (err error) {
	folder, err := os.MkdirTemp(filepath.Dir(file), ".image-")
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	contents := filepath.Join(folder, "layout")
	if err := writeLayout(contents, img, tag); err != nil {
		return fmt.Errorf("write the image layout: %w", err)
	}
	archive := filepath.Join(folder, "archive.tar")
	if err := pack(contents, archive); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	if err := os.Rename(archive, file); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}

// writeLayout writes an image layout whose index has the image alone. The
// descriptor is made by hand because the library adds an artifactType to it,
// which belongs to things that are not images.
func writeLayout(folder string, img v1.Image, tag name.Tag) error {
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	if err := path.WriteImage(img); err != nil {
		return err
	}
	size, err := img.Size()
	if err != nil {
		return err
	}
	digest, err := img.Digest()
	if err != nil {
		return err
	}
	mediaType, err := img.MediaType()
	if err != nil {
		return err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return err
	}
	return path.AppendDescriptor(v1.Descriptor{
		MediaType:   mediaType,
		Size:        size,
		Digest:      digest,
		Platform:    config.Platform(),
		Annotations: map[string]string{nameAnnotation: tag.Name(), refAnnotation: tag.TagStr()},
	})
}

// pack writes a folder into a tar file, in the order of names and with the same
// times and modes every time.
func pack(folder, file string) (err error) {
	out, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	w := tar.NewWriter(out)
	root := os.DirFS(folder)
	err = fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		header := &tar.Header{Name: name + "/", Typeflag: tar.TypeDir, Mode: 0o755, ModTime: epoch}
		if entry.IsDir() {
			return w.WriteHeader(header)
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		header = &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: info.Size(), ModTime: epoch}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		in, err := root.Open(name)
		if err != nil {
			return err
		}
		defer in.Close()
		_, err = io.Copy(w, in)
		return err
	})
	return errors.Join(err, w.Close())
}

// unpack writes the files of an archive below a folder; os.Root refuses names
// that lead outside it.
func unpack(file, folder string) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	r := tar.NewReader(in)
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if err := root.MkdirAll(filepath.Dir(header.Name), 0o755); err != nil {
			return err
		}
		out, err := root.Create(header.Name)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, r)
		if err := errors.Join(err, out.Close()); err != nil {
			return err
		}
	}
}
