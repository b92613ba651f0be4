// Package cli is the command line of the program "cluster".
package cli

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mcptask/mcptask/hack/cluster/internal/build"
	"github.com/mcptask/mcptask/hack/cluster/internal/cache"
	"github.com/mcptask/mcptask/hack/cluster/internal/cluster"
	"github.com/mcptask/mcptask/hack/cluster/internal/progress"
)

// Main runs the program and returns its exit code. Results go to standard
// output, all else to standard error.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := command().ExecuteContext(ctx)
	var code exitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	}
	fmt.Fprintln(os.Stderr, "cluster:", err)
	return 1
}

// exitCode is that of a command which was run for the user and has said itself
// what is wrong.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// session is what commands have in common.
type session struct {
	name   string
	root   string
	report *progress.Reporter
}

func (s *session) cluster() (*cluster.Cluster, error) { return cluster.New(s.root, s.name, s.report) }

func (s *session) ensure(ctx context.Context, outputs []string) (build.Tree, error) {
	builder, err := build.New(s.root, s.report)
	if err != nil {
		return build.Tree{}, err
	}
	return builder.Ensure(ctx, outputs...)
}

func command() *cobra.Command {
	s := &session{report: progress.New(os.Stderr)}
	root := &cobra.Command{
		Use:   "cluster",
		Short: "Run a real Kubernetes on a bare Linux machine, built from Go modules alone",
		Long: "Run a real Kubernetes on a bare Linux machine, built from Go modules alone.\n\n" +
			"Built programs and the files of clusters are kept in $" + cache.Variable + ",\nor else in mcptask in the user's cache folder.",
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(*cobra.Command, []string) (err error) {
			s.root, err = cache.Root()
			return err
		},
	}
	root.PersistentFlags().StringVar(&s.name, "name", cluster.DefaultName, "name of the cluster")
	root.AddCommand(
		s.up(), s.down(), s.status(), s.kubeconfig(), s.load(), s.kill(), s.stop(), s.start(), s.cut(), s.heal(), s.exec(), s.logs(),
		s.build(), s.assets(), s.bin(), s.clean(), initCommand(),
	)
	return root
}

func (s *session) up() *cobra.Command {
	options := cluster.Options{Nodes: -1}
	var subnet, pods, services string
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Make the cluster run and wait until it is fit for use; a healthy one is left as it is",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, n := range []struct {
				flag, value string
				prefix      *netip.Prefix
			}{{"--subnet", subnet, &options.Networks.Nodes}, {"--pods", pods, &options.Networks.Pods}, {"--services", services, &options.Networks.Services}} {
				if n.value == "" {
					continue
				}
				p, err := netip.ParsePrefix(n.value)
				if err != nil {
					return fmt.Errorf("%s: %w", n.flag, err)
				}
				*n.prefix = p
			}
			if options.Nodes < 0 && cmd.Flags().Changed("nodes") {
				return errors.New("--nodes: want 0 or more")
			}
			c, err := s.cluster()
			if err != nil {
				return err
			}
			builder, err := build.New(s.root, s.report)
			if err != nil {
				return err
			}
			if err := c.Up(cmd.Context(), options, builder); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "export KUBECONFIG=%s\n", c.Kubeconfig())
			return nil
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&options.Nodes, "nodes", -1, "number of nodes, 0 for the control plane alone (default 1)")
	flags.Uint16Var(&options.APIPort, "port", 0, "port of the API server (default 6443, or the next free one)")
	flags.StringVar(&subnet, "subnet", "", "IPv4 network of the nodes, a /24 (default a free one)")
	flags.StringVar(&pods, "pods", "", "IPv4 network of the Pods, a /16 (default a free one)")
	flags.StringVar(&services, "services", "", "IPv4 network of the Services, a /16 (default a free one)")
	flags.Lookup("nodes").DefValue, flags.Lookup("port").DefValue = "", ""
	return cmd
}

// on is a command on the cluster that --name names.
func (s *session) on(use, short string, args cobra.PositionalArgs, run func(context.Context, *cluster.Cluster, []string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: args, RunE: func(cmd *cobra.Command, args []string) error {
		c, err := s.cluster()
		if err != nil {
			return err
		}
		return run(cmd.Context(), c, args)
	}}
}

func (s *session) down() *cobra.Command {
	return s.on("down", "End the cluster and remove everything of it, also after a crash", cobra.NoArgs,
		func(ctx context.Context, c *cluster.Cluster, _ []string) error { return c.Down(ctx) })
}

func (s *session) status() *cobra.Command {
	return s.on("status", "Show what runs, with process numbers and memory", cobra.NoArgs,
		func(ctx context.Context, c *cluster.Cluster, _ []string) error { return c.Status(ctx, os.Stdout) })
}

func (s *session) kubeconfig() *cobra.Command {
	return s.on("kubeconfig", "Print the path of the administrator's kubeconfig", cobra.NoArgs,
		func(_ context.Context, c *cluster.Cluster, _ []string) error {
			if _, err := os.Stat(c.Kubeconfig()); err != nil {
				return fmt.Errorf("cluster %s is not up", c.Name)
			}
			fmt.Println(c.Kubeconfig())
			return nil
		})
}

func (s *session) load() *cobra.Command {
	return s.on("load IMAGE.tar...", "Put the images of OCI archives on every node", cobra.MinimumNArgs(1),
		func(ctx context.Context, c *cluster.Cluster, args []string) error { return c.Load(ctx, args) })
}

func (s *session) kill() *cobra.Command {
	var signal string
	cmd := s.on("kill ROLE/COMPONENT", "Send a signal to a component; it is started again if that ends it", cobra.ExactArgs(1),
		func(_ context.Context, c *cluster.Cluster, args []string) error { return c.Signal(args[0], signal) })
	cmd.Flags().StringVar(&signal, "signal", "KILL", "name or number of the signal")
	return cmd
}

func (s *session) stop() *cobra.Command {
	return s.on("stop ROLE...", "Power nodes off, or the control plane (cp); their disks stay", cobra.MinimumNArgs(1),
		func(ctx context.Context, c *cluster.Cluster, args []string) error { return c.Stop(ctx, args) })
}

func (s *session) start() *cobra.Command {
	return s.on("start ROLE...", "Power nodes on again and wait until they are ready", cobra.MinimumNArgs(1),
		func(ctx context.Context, c *cluster.Cluster, args []string) error { return c.Start(ctx, args) })
}

func (s *session) cut() *cobra.Command {
	var all bool
	cmd := s.on("cut ROLE...", "Cut the network between nodes and the control plane", cobra.MinimumNArgs(1),
		func(ctx context.Context, c *cluster.Cluster, args []string) error { return c.Cut(ctx, args, all) })
	cmd.Flags().BoolVar(&all, "all", false, "cut off from other nodes and from this machine, too")
	return cmd
}

func (s *session) heal() *cobra.Command {
	return s.on("heal ROLE...", "Join nodes again that were cut off", cobra.MinimumNArgs(1),
		func(ctx context.Context, c *cluster.Cluster, args []string) error { return c.Heal(ctx, args) })
}

func (s *session) exec() *cobra.Command {
	cmd := s.on("exec ROLE COMMAND...", "Run a command inside a node or the control plane (cp)", cobra.MinimumNArgs(2),
		func(ctx context.Context, c *cluster.Cluster, args []string) error {
			err := c.Exec(ctx, args[0], args[1:])
			var exit *exec.ExitError
			if errors.As(err, &exit) && exit.ExitCode() > 0 {
				return exitCode(exit.ExitCode())
			}
			return err
		})
	cmd.Flags().SetInterspersed(false)
	return cmd
}

func (s *session) logs() *cobra.Command {
	var follow bool
	cmd := s.on("logs ROLE/COMPONENT", "Print the log of a component; ROLE/init is the role's own", cobra.ExactArgs(1),
		func(ctx context.Context, c *cluster.Cluster, args []string) error {
			return c.Logs(ctx, args[0], follow)
		})
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is added")
	return cmd
}

// initCommand is what the first process of every role runs; see package process.
func initCommand() *cobra.Command {
	var role, dir, name string
	cmd := &cobra.Command{
		Use: "init", Hidden: true, Args: cobra.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil }, // the cache folder is given by --dir
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := cluster.New(filepath.Dir(filepath.Dir(dir)), name, nil)
			if err != nil {
				return err
			}
			return c.RunInit(cmd.Context(), role)
		},
	}
	cmd.Flags().StringVar(&role, "role", "", "role to run")
	cmd.Flags().StringVar(&dir, "dir", "", "folder of the cluster")
	cmd.Flags().StringVar(&name, "name", "", "name of the cluster")
	return cmd
}
