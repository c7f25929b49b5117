// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// peer is the process at the other end of a connection, as the kernel tells it.
type peer struct {
	pid       int
	namespace string // as in sim.Client: "" is the daemon's own, which is the host's
	root      bool   // user 0 with CAP_SYS_ADMIN
}

// peerOf asks the kernel who connected.
func peerOf(c *net.UnixConn) (peer, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return peer{}, fmt.Errorf("who connected: %w", err)
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) { cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(err, credErr); err != nil {
		return peer{}, fmt.Errorf("who connected: %w", err)
	}
	p := peer{pid: int(cred.Pid)}
	if p.namespace, err = pidNamespace(p.pid); err != nil {
		return peer{}, err
	}
	p.root = cred.Uid == 0 && hasAdmin(p.pid)
	return p, nil
}

// hasAdmin says whether a process has CAP_SYS_ADMIN; of one that is gone it does not matter.
func hasAdmin(pid int) bool {
	caps, err := strconv.ParseUint(statusField(pid, "CapEff"), 16, 64)
	return err == nil && caps&(1<<unix.CAP_SYS_ADMIN) != 0
}

// statusField reads a line of /proc/PID/status.
func statusField(pid int, field string) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); name == field {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// pidNamespace names the PID namespace of a process by the way down to it from the daemon's own: "" for that one, then the
// inode numbers of the namespaces below, with slashes between.
func pidNamespace(pid int) (string, error) {
	own, err := os.Open("/proc/self/ns/pid")
	if err != nil {
		return "", fmt.Errorf("open own PID namespace: %w", err)
	}
	defer own.Close()
	at, err := os.Open(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil {
		return "", fmt.Errorf("open PID namespace of %d: %w", pid, err)
	}
	var path []string
	for {
		same, id, err := compare(own, at)
		if err != nil || same {
			at.Close()
			slices.Reverse(path)
			return strings.Join(path, "/"), err
		}
		path = append(path, id)
		up, err := unix.IoctlRetInt(int(at.Fd()), unix.NS_GET_PARENT)
		at.Close()
		if err != nil {
			// The process is not below the daemon: it sees everything that the daemon sees.
			return "", nil
		}
		at = os.NewFile(uintptr(up), "parent")
	}
}

// compare says whether two files of namespaces are one namespace, and names the second.
func compare(a, b *os.File) (same bool, id string, err error) {
	var x, y unix.Stat_t
	if err := errors.Join(unix.Fstat(int(a.Fd()), &x), unix.Fstat(int(b.Fd()), &y)); err != nil {
		return false, "", fmt.Errorf("compare namespaces: %w", err)
	}
	return x.Ino == y.Ino, strconv.FormatUint(y.Ino, 10), nil
}

// pidInside is a process's number in a namespace that is so many levels below the daemon's. What is not a process of this
// machine keeps its number.
func pidInside(pid, depth int) int {
	numbers := strings.Fields(statusField(pid, "NSpid"))
	if depth == 0 || depth >= len(numbers) {
		return pid
	}
	inside, err := strconv.Atoi(numbers[depth])
	if err != nil {
		return pid
	}
	return inside
}

// depth is how many levels a namespace lies below the daemon's.
func depth(namespace string) int {
	if namespace == "" {
		return 0
	}
	return strings.Count(namespace, "/") + 1
}
