// Package host checks that this machine can do what a cluster asks of it, and
// says in one line what is missing.
package host

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// architectures are those that every program of a cluster is built for.
var architectures = []string{"amd64", "arm64"}

// needed are the capabilities without which a cluster cannot run.
var needed = []struct {
	bit  int
	name string
}{
	{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN"}, {unix.CAP_NET_ADMIN, "CAP_NET_ADMIN"}, {unix.CAP_SYS_PTRACE, "CAP_SYS_PTRACE"},
	{unix.CAP_MKNOD, "CAP_MKNOD"}, {unix.CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE"}, {unix.CAP_SETUID, "CAP_SETUID"},
}

// CheckArchitecture refuses machines that the programs were never run on.
func CheckArchitecture() error {
	if !slices.Contains(architectures, runtime.GOARCH) {
		return fmt.Errorf("this machine's architecture is %s; a cluster runs on %s", runtime.GOARCH, strings.Join(architectures, " and "))
	}
	return nil
}

// CheckRoot refuses to go on without the rights of the machine's own root.
func CheckRoot() error {
	if os.Geteuid() != 0 {
		return errors.New("a cluster makes namespaces, mounts and interfaces: run this as root (with sudo: sudo --preserve-env=PATH,MCPTASK_CACHE ...)")
	}
	mapping, err := os.ReadFile("/proc/self/uid_map")
	if err == nil && !isInitialUserNamespace(string(mapping)) {
		return errors.New("root here is root of a user namespace only (a rootless container?): a cluster needs the machine's own root")
	}
	var missing []string
	for _, c := range needed {
		if !HasCapability(c.bit) {
			missing = append(missing, c.name)
		}
	}
	if missing != nil {
		return fmt.Errorf("root here lacks %s (an unprivileged container?): a cluster needs them", strings.Join(missing, ", "))
	}
	return nil
}

// isInitialUserNamespace tells whether a uid_map maps every user to itself.
func isInitialUserNamespace(mapping string) bool {
	return slices.Equal(strings.Fields(mapping), []string{"0", "0", "4294967295"})
}

// HasCapability tells whether this process has a capability, by its number.
func HasCapability(bit int) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	return data[bit/32].Effective&(1<<(bit%32)) != 0
}

// FileLimit is the highest number of open files that a process of this one may have.
func FileLimit() uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 1024
	}
	return limit.Max
}
