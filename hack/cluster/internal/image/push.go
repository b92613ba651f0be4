package image

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Push sends the one image of an archive to a registry, with the credentials
// that "docker login" and its like have stored. It returns the image's digest.
func Push(ctx context.Context, archive string, ref name.Reference) (digest string, err error) {
	folder, err := os.MkdirTemp("", "image-push-")
	if err != nil {
		return "", fmt.Errorf("unpack %s: %w", archive, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if err := unpack(archive, folder); err != nil {
		return "", fmt.Errorf("unpack %s: %w", archive, err)
	}
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return "", fmt.Errorf("%s is not an OCI image archive: %w", archive, err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return "", fmt.Errorf("read %s: %w", archive, err)
	}
	if len(manifest.Manifests) != 1 {
		return "", fmt.Errorf("%s holds %d images; want one", archive, len(manifest.Manifests))
	}
	img, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", archive, err)
	}
	if err := remote.Write(ref, img, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return "", fmt.Errorf("push %s: %w", ref, err)
	}
	return manifest.Manifests[0].Digest.String(), nil
}
