// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package cgroup finds the cgroups of processes in a cgroup v2 hierarchy. It makes and changes none.
package cgroup

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Tree is a mounted hierarchy and the /proc of its processes.
type Tree struct {
	Root string // "/sys/fs/cgroup"
	Proc string // "/proc"
}

// Unified says why there is no cgroup v2 hierarchy at the root; nil: there is.
func (t Tree) Unified() error {
	var fs unix.Statfs_t
	if err := unix.Statfs(t.Root, &fs); err != nil {
		return fmt.Errorf("cgroup hierarchy %s: %w", t.Root, err)
	}
	if int64(fs.Type) != unix.CGROUP2_SUPER_MAGIC {
		return fmt.Errorf("%s is not a cgroup v2 hierarchy", t.Root)
	}
	return nil
}

// maxTable bounds what is read of /proc/PID/cgroup: a line per hierarchy, each no longer than a path.
const maxTable = 64 << 10

// Of is the folder of the cgroup that a process is in.
func (t Tree) Of(pid int) (string, error) {
	file, err := os.Open(filepath.Join(t.Proc, strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return "", fmt.Errorf("find the cgroup of pid %d: %w", pid, err)
	}
	defer file.Close()
	table, err := io.ReadAll(io.LimitReader(file, maxTable))
	if err != nil {
		return "", fmt.Errorf("find the cgroup of pid %d: %w", pid, err)
	}
	name, err := unified(string(table))
	if err != nil {
		return "", fmt.Errorf("find the cgroup of pid %d: %w", pid, err)
	}
	folder := filepath.Join(t.Root, name)
	if !t.Exists(folder) {
		return "", fmt.Errorf("find the cgroup of pid %d: there is no %s", pid, folder)
	}
	return folder, nil
}

// unified is the name of the cgroup in the one hierarchy of version 2. A name with ".." is that of a process outside our own
// cgroup namespace, which has no folder here.
func unified(table string) (string, error) {
	for line := range strings.Lines(table) {
		name, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::")
		switch {
		case !ok:
		case !strings.HasPrefix(name, "/") || strings.HasSuffix(name, " (deleted)"):
			return "", fmt.Errorf("%q is the cgroup of no live process", name)
		case strings.Contains(name+"/", "/../"):
			return "", fmt.Errorf("cgroup %s is outside the cgroup namespace of this agent, which needs that of the host", name)
		default:
			return name, nil
		}
	}
	return "", fmt.Errorf("it is in no cgroup of version 2")
}

// Exists says whether the cgroup of a folder is still there.
func (t Tree) Exists(folder string) bool {
	info, err := os.Stat(folder)
	return err == nil && info.IsDir()
}

// IsRoot says that a folder is that of the hierarchy as a whole.
func (t Tree) IsRoot(folder string) bool { return filepath.Clean(folder) == filepath.Clean(t.Root) }
