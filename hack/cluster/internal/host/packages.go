package host

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/mcptask/mcptask/hack/cluster/internal/progress"
)

// Package is something that a distribution provides: its name in Debian and
// Ubuntu, and how to see that it is there, whoever installed it.
type Package struct {
	Name    string
	present func() bool
}

// BuildPackages are needed to build runc and the pause program, the two that
// are C or hold C.
var BuildPackages = []Package{
	{"gcc", command("gcc")},
	{"libc6-dev", staticLibrary("libc.a")},
	{"libseccomp-dev", staticLibrary("libseccomp.a")},
	{"pkg-config", command("pkg-config")},
}

// RunPackages are needed on a machine that runs a cluster.
var RunPackages = []Package{
	{"nftables", command("nft")},
	{"iptables", command("iptables")},
	{"util-linux", command("nsenter")},
}

// Ensure installs the packages that are missing if this is root on Debian or
// Ubuntu, and otherwise says which ones to install.
func Ensure(ctx context.Context, report *progress.Reporter, packages []Package) error {
	missing := missingOf(packages)
	if missing == nil {
		return nil
	}
	install := append([]string{"apt-get", "install", "--yes", "--no-install-recommends"}, missing...)
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("missing from this machine: %[1]s; install them as root: apt-get install %[1]s (or your distribution's packages for the same)", strings.Join(missing, " "))
	}
	report.Linef("installing the Debian packages %s", strings.Join(missing, " "))
	if err := apt(ctx, install); err != nil {
		// package lists may be absent or old
		if err := apt(ctx, []string{"apt-get", "update"}); err != nil {
			return err
		}
		if err := apt(ctx, install); err != nil {
			return err
		}
	}
	if still := missingOf(packages); still != nil {
		return fmt.Errorf("installed the Debian packages %s, but still found nothing of %s", strings.Join(missing, " "), strings.Join(still, " "))
	}
	return nil
}

func missingOf(packages []Package) []string {
	var missing []string
	for _, p := range packages {
		if !p.present() {
			missing = append(missing, p.Name)
		}
	}
	return missing
}

func apt(ctx context.Context, args []string) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	out, err := cmd.CombinedOutput()
	if err != nil {
		lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, lines[len(lines)-1])
	}
	return nil
}

// command looks for a program in PATH and where root's programs are.
func command(name string) func() bool {
	return func() bool {
		if _, err := exec.LookPath(name); err == nil {
			return true
		}
		for _, folder := range []string{"/usr/sbin", "/sbin", "/usr/local/sbin"} {
			if _, err := exec.LookPath(filepath.Join(folder, name)); err == nil {
				return true
			}
		}
		return false
	}
}

// staticLibrary asks the compiler whether it finds a library to link statically.
func staticLibrary(name string) func() bool {
	return func() bool {
		out, err := exec.Command("gcc", "-print-file-name="+name).Output()
		return err == nil && filepath.IsAbs(string(bytes.TrimSpace(out)))
	}
}
