package image

import (
	"fmt"
	"os"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"
)

// hostBundles are the files that systems keep their certificate authorities in.
var hostBundles = []string{bundle, "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"}

// HostCertificates is this machine's file of certificate authorities, or empty
// if it has none.
func HostCertificates() string {
	for _, file := range hostBundles {
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			return file
		}
	}
	return ""
}

// Command is the program "image".
func Command() *cobra.Command {
	root := &cobra.Command{
		Use:           "image",
		Short:         "Make container images from static binaries, with no engine and no base image",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(buildCommand(), pushCommand())
	return root
}

func buildCommand() *cobra.Command {
	var output, tag, platform string
	var spec Spec
	cmd := &cobra.Command{
		Use:   "build --output FILE.tar --tag NAME:TAG --entrypoint /PROGRAM SRC=/dst...",
		Short: "Write an OCI image archive; equal inputs give equal bytes",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := name.NewTag(tag, name.StrictValidation)
			if err != nil {
				return fmt.Errorf("--tag: %w", err)
			}
			p, err := v1.ParsePlatform(platform)
			if err != nil {
				return fmt.Errorf("--platform: %w", err)
			}
			spec.Platform = *p
			for _, arg := range args {
				f, err := ParseFile(arg)
				if err != nil {
					return err
				}
				spec.Files = append(spec.Files, f)
			}
			img, err := New(spec)
			if err != nil {
				return err
			}
			return WriteArchive(output, img, ref)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&output, "output", "o", "", "archive to write")
	flags.StringVarP(&tag, "tag", "t", "", "name of the image, with its tag")
	flags.StringVar(&platform, "platform", "linux/"+runtime.GOARCH, "operating system and architecture of the binaries")
	flags.StringVar(&spec.User, "user", NonRoot, "user and group to run as, in numbers")
	flags.StringSliceVar(&spec.Entrypoint, "entrypoint", nil, "program to run, with its first arguments after commas")
	flags.StringArrayVar(&spec.Env, "env", nil, "NAME=value; may be given several times")
	flags.StringVar(&spec.CACertificates, "ca-certificates", HostCertificates(), "file of certificate authorities for the image; empty for none")
	for _, flag := range []string{"output", "tag", "entrypoint"} {
		cobra.CheckErr(cmd.MarkFlagRequired(flag))
	}
	return cmd
}

func pushCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "push FILE.tar REF",
		Short: "Send the image of an archive to a registry, with the credentials of docker login",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := name.ParseReference(args[1])
			if err != nil {
				return fmt.Errorf("REF: %w", err)
			}
			digest, err := Push(cmd.Context(), args[0], ref)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), ref.Context().Name()+"@"+digest)
			return nil
		},
	}
}
