package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mcptask/mcptask/hack/cluster/internal/build"
	"github.com/mcptask/mcptask/hack/cluster/internal/cluster"
)

func (s *session) build() *cobra.Command {
	return &cobra.Command{
		Use: "build", Short: "Build every program and image into the cache", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := s.ensure(cmd.Context(), build.Everything())
			return err
		},
	}
}

func (s *session) assets() *cobra.Command {
	return &cobra.Command{
		Use:   "assets",
		Short: "Print the folder of kube-apiserver, etcd, kube-controller-manager and kubectl, for KUBEBUILDER_ASSETS",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			tree, err := s.ensure(cmd.Context(), build.Assets())
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), tree.Kubernetes())
			return nil
		},
	}
}

func (s *session) bin() *cobra.Command {
	return &cobra.Command{
		Use:   "bin [PROGRAM...]",
		Short: "Print the folder of kubectl, helm and controller-gen; with names, only those are sure to be there",
		RunE: func(cmd *cobra.Command, args []string) error {
			outputs, err := build.Tools(args...)
			if err != nil {
				return err
			}
			tree, err := s.ensure(cmd.Context(), outputs)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), tree.Tools())
			return nil
		},
	}
}

func (s *session) clean() *cobra.Command {
	return &cobra.Command{
		Use: "clean", Short: "Remove the programs of older versions from the cache, but for those that a cluster runs", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			used, err := cluster.Trees(s.root)
			if err != nil {
				return err
			}
			builder, err := build.New(s.root, s.report)
			if err != nil {
				return err
			}
			return builder.Clean(used)
		},
	}
}
