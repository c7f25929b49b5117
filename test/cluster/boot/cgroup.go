// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package boot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpuslice/test/cluster/node"
)

// cgroupPrefix is followed by the process id of the cluster's owner.
const cgroupPrefix = "gpuslice-"

// removeLimit is how long the kernel may take to forget ended processes.
const removeLimit = 20 * time.Second

// hierarchies are the mount points of cgroup file systems in a mount table, of either version.
func hierarchies(mounts string) []string {
	var roots []string
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line)
		if len(fields) > 2 && (fields[2] == "cgroup" || fields[2] == "cgroup2") {
			roots = append(roots, fields[1])
		}
	}
	return roots
}

func mountedHierarchies() ([]string, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	return hierarchies(string(mounts)), nil
}

// createCgroup makes the node's cgroup in every hierarchy.
func createCgroup(roots []string, name string) error {
	for _, root := range roots {
		group := filepath.Join(root, name)
		if err := os.Mkdir(group, 0o755); err != nil {
			return fmt.Errorf("create cgroup: %w", err)
		}
		// A new cpuset of version 1 is empty, and nothing can run in it.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			if err := inherit(root, group, file); err != nil {
				return err
			}
		}
	}
	return nil
}

func inherit(root, group, file string) error {
	value, err := os.ReadFile(filepath.Join(root, file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the root's cpuset: %w", err)
	}
	if err := os.WriteFile(filepath.Join(group, file), value, 0o644); err != nil {
		return fmt.Errorf("fill the node's cpuset: %w", err)
	}
	return nil
}

// removeCgroup removes the node's cgroup with all below it. It waits for processes that are about to vanish.
func removeCgroup(ctx context.Context, roots []string, name string) error {
	var failed []error
	for _, root := range roots {
		group := filepath.Join(root, name)
		failed = append(failed, node.Until(ctx, removeLimit, "cgroup "+group+" to go", func(context.Context) error { return removeTree(group) }))
	}
	return errors.Join(failed...)
}

// removeTree removes folders from the bottom up; the files of a cgroup go with it.
func removeTree(group string) error {
	var folders []string
	err := filepath.WalkDir(group, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			folders = append(folders, name)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("list cgroups: %w", err)
	}
	for _, folder := range slices.Backward(folders) {
		if err := os.Remove(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove cgroup: %w", err)
		}
	}
	return nil
}

// abandoned are the cgroups among the names whose owner no longer lives.
func abandoned(names []string, alive func(pid int) bool) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		digits, ours := strings.CutPrefix(name, cgroupPrefix)
		pid, err := strconv.Atoi(digits)
		return !ours || err != nil || alive(pid)
	})
}

// sweep removes what clusters left behind that were killed. One in use is another cluster's, whose owner cannot be seen from here.
func sweep(roots []string) error {
	var failed []error
	for _, root := range roots {
		entries, err := os.ReadDir(root)
		if err != nil {
			return fmt.Errorf("list cgroups: %w", err)
		}
		var names []string
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		for _, name := range abandoned(names, isAlive) {
			failed = append(failed, removeTree(filepath.Join(root, name)))
		}
	}
	return errors.Join(failed...)
}

func isAlive(pid int) bool {
	_, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid)))
	return err == nil
}
