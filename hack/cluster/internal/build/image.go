package build

import (
	"path/filepath"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1"

	"github.com/mcptask/mcptask/hack/cluster/internal/image"
)

// wrap makes the archive PROGRAM.tar of an image that runs a program.
func wrap(program string, r recipe) error {
	tag, err := name.NewTag(r.Image, name.StrictValidation)
	if err != nil {
		return err
	}
	inside := "/" + filepath.Base(program)
	img, err := image.New(image.Spec{
		Files:      []image.File{{Source: program, Target: inside}},
		Entrypoint: []string{inside},
		User:       r.User,
		Platform:   v1.Platform{OS: "linux", Architecture: runtime.GOARCH},
	})
	if err != nil {
		return err
	}
	return image.WriteArchive(program+".tar", img, tag)
}
