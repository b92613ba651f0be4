package network

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// portTries is how many ports FreePort tries.
const portTries = 100

// FreePort returns the first port from the given one on that can be listened on
// at an address, which need not exist yet.
func FreePort(at netip.Addr, from uint16) (uint16, error) {
	for port := from; port < from+portTries; port++ {
		err := CheckPort(at, port)
		if err == nil {
			return port, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return 0, err
		}
	}
	return 0, fmt.Errorf("no free TCP port at %s from %d to %d", at, from, from+portTries-1)
}

// CheckPort tells whether a port can be listened on, and if not, who has it.
func CheckPort(at netip.Addr, port uint16) error {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var optionErr error
		err := c.Control(func(fd uintptr) { optionErr = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_FREEBIND, 1) })
		return errors.Join(err, optionErr)
	}}
	l, err := config.Listen(context.Background(), "tcp4", netip.AddrPortFrom(at, port).String())
	if err == nil {
		return l.Close()
	}
	if pid, name, ok := listener(port); ok {
		return fmt.Errorf("TCP port %d is taken by %s (pid %d): %w", port, name, pid, err)
	}
	return fmt.Errorf("TCP port %d: %w", port, err)
}

// listener finds the process that listens on a TCP port of this machine.
func listener(port uint16) (pid int, name string, ok bool) {
	sockets := map[string]bool{}
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(file)
		if err != nil {
			continue
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			if inode, ok := listeningInode(lines.Text(), port); ok {
				sockets["socket:["+inode+"]"] = true
			}
		}
		f.Close()
	}
	descriptors, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil || len(sockets) == 0 {
		return 0, "", false
	}
	for _, d := range descriptors {
		if target, err := os.Readlink(d); err != nil || !sockets[target] {
			continue
		}
		process := filepath.Dir(filepath.Dir(d))
		comm, err := os.ReadFile(filepath.Join(process, "comm"))
		if pid, e := strconv.Atoi(filepath.Base(process)); err == nil && e == nil {
			return pid, strings.TrimSpace(string(comm)), true
		}
	}
	return 0, "", false
}

// listeningInode reads a line of /proc/net/tcp: a socket in state 0A listens.
func listeningInode(line string, port uint16) (inode string, ok bool) {
	f := strings.Fields(line)
	if len(f) < 10 || f[3] != "0A" || !strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) {
		return "", false
	}
	return f[9], true
}
