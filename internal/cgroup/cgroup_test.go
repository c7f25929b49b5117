// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package cgroup_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuslice/internal/cgroup"
)

// The tables are those of real hosts: version 2 alone, both beside each other, version 1 alone, and foreign namespaces.
func TestOf(t *testing.T) {
	for _, tc := range []struct {
		why, table, want, fails string
	}{
		{"version 2 alone", "0::/kubepods/burstable/pod1/c1\n", "kubepods/burstable/pod1/c1", ""},
		{"both", "12:cpu,cpuacct:/x\n1:name=systemd:/y\n0::/kubepods/burstable/pod1/c1\n", "kubepods/burstable/pod1/c1", ""},
		{"the root", "0::/\n", "", ""},
		{"no line end", "0::/kubepods/burstable/pod1/c1", "kubepods/burstable/pod1/c1", ""},
		{"version 1 alone", "12:cpu,cpuacct:/x\n", "", "no cgroup of version 2"},
		{"nothing", "", "", "no cgroup of version 2"},
		{"another cgroup namespace", "0::/../../kubepods/c1\n", "", "outside the cgroup namespace"},
		{"a way out", "0::/kubepods/../../etc\n", "", "outside the cgroup namespace"},
		{"an ended process", "0::/kubepods/c1 (deleted)\n", "", "no live process"},
		{"garbage", "0::kubepods\n", "", "no live process"},
		{"one that is not mounted here", "0::/elsewhere\n", "", "there is no"},
	} {
		t.Run(tc.why, func(t *testing.T) {
			dir := t.TempDir()
			tree := cgroup.Tree{Root: filepath.Join(dir, "cgroup"), Proc: filepath.Join(dir, "proc")}
			for _, folder := range []string{filepath.Join(tree.Root, "kubepods/burstable/pod1/c1"), filepath.Join(tree.Proc, "7")} {
				if err := os.MkdirAll(folder, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(tree.Proc, "7/cgroup"), []byte(tc.table), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := tree.Of(7)
			switch {
			case tc.fails != "" && (err == nil || !strings.Contains(err.Error(), tc.fails) || !strings.Contains(err.Error(), "pid 7")):
				t.Errorf("%q, %v; want an error with %q", got, err, tc.fails)
			case tc.fails == "" && (err != nil || got != filepath.Join(tree.Root, tc.want)):
				t.Errorf("%q, %v; want %s", got, err, tc.want)
			case tc.fails == "" && tree.IsRoot(got) != (tc.want == ""):
				t.Errorf("IsRoot(%s) = %t", got, tree.IsRoot(got))
			}
			if _, err := tree.Of(8); err == nil {
				t.Error("a process that is not there has a cgroup")
			}
		})
	}
}

func TestUnified(t *testing.T) {
	if err := (cgroup.Tree{Root: t.TempDir()}).Unified(); err == nil || !strings.Contains(err.Error(), "not a cgroup v2 hierarchy") {
		t.Errorf("a folder: %v", err)
	}
	gone := cgroup.Tree{Root: filepath.Join(t.TempDir(), "none")}
	if err := gone.Unified(); err == nil {
		t.Error("what is not there is a hierarchy")
	}
	if gone.Exists(gone.Root) {
		t.Error("it exists")
	}
}
