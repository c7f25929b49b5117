// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// NodeHolders finds on a real node what keeps a GPU from being reset: processes that have its device node open, as far as /proc
// shows them to this one, and kernel modules.
type NodeHolders struct {
	Proc string // of this PID namespace, "/proc"
	Sys  string
	Dev  string // the folder that holds dev/nvidia0
}

// persistenceDaemon is nvidia-persistenced as the kernel cuts its name. It holds GPUs for persistence mode and lets go when that
// is turned off, so it is no client of its own.
const persistenceDaemon = "nvidia-persiste"

// Clients implements Holders: "pid 4711 (python3)".
func (h NodeHolders) Clients(_ string, minor int) []string {
	node, err := device(filepath.Join(h.Dev, "dev", fmt.Sprintf("nvidia%d", minor)))
	if err != nil {
		return nil
	}
	return h.processes(node)
}

// deviceNode is a character device: which device it is, and which file.
type deviceNode struct{ device, filesystem, inode uint64 }

// device reads the character device behind a path.
func device(path string) (deviceNode, error) {
	info, err := os.Stat(path)
	if err != nil {
		return deviceNode{}, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.Mode()&os.ModeCharDevice == 0 {
		return deviceNode{}, fmt.Errorf("%s is no character device", path)
	}
	return deviceNode{device: stat.Rdev, filesystem: stat.Dev, inode: stat.Ino}, nil
}

func (h NodeHolders) processes(node deviceNode) []string {
	entries, err := os.ReadDir(h.Proc)
	if err != nil {
		return nil
	}
	own, names := h.mounts("self"), []string{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() || !h.hasOpen(e.Name(), node, own) {
			continue
		}
		if program := h.program(e.Name()); program != persistenceDaemon {
			names = append(names, fmt.Sprintf("pid %d (%s)", pid, program))
		}
	}
	slices.Sort(names)
	return names
}

// hasOpen looks at the files behind the links, because a container knows the node by another path, and has a copy of it. Among
// our own mounts it is the very node that counts: another of the same number is another driver's, as simulated ones are.
func (h NodeHolders) hasOpen(pid string, node deviceNode, own string) bool {
	fds, err := filepath.Glob(filepath.Join(h.Proc, pid, "fd", "*"))
	return err == nil && slices.ContainsFunc(fds, func(fd string) bool {
		open, err := device(fd)
		return err == nil && open.device == node.device && (open == node || h.mounts(pid) != own)
	})
}

// mounts names the mount namespace of a process.
func (h NodeHolders) mounts(pid string) string {
	name, err := os.Readlink(filepath.Join(h.Proc, pid, "ns/mnt"))
	if err != nil {
		return ""
	}
	return name
}

func (h NodeHolders) program(pid string) string {
	text, err := ReadHostFile(filepath.Join(h.Proc, pid, "comm"))
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(text)
}

// Modules implements Holders: "kernel module nvidia_drm".
func (h NodeHolders) Modules() []string {
	entries, err := os.ReadDir(filepath.Join(h.Sys, "module/nvidia/holders"))
	if err != nil {
		return nil
	}
	names := []string{}
	for _, e := range entries {
		names = append(names, "kernel module "+e.Name())
	}
	return names
}
