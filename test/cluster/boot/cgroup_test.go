// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package boot

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHierarchies(t *testing.T) {
	tests := []struct {
		name, why, mounts string
		want              []string
	}{
		{
			"hybrid", "runc uses the unified hierarchy beside the controllers",
			"tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n",
			[]string{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/unified"},
		},
		{"version 2", "there is one hierarchy", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n", []string{"/sys/fs/cgroup"}},
		{"none", "a short line is no mount", "proc\n\n", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, hierarchies(tt.mounts)); diff != "" {
				t.Errorf("hierarchies (-want +got), %s:\n%s", tt.why, diff)
			}
		})
	}
}

func TestCreateAndRemoveCgroup(t *testing.T) {
	cpuset, memory := t.TempDir(), t.TempDir()
	for file, value := range map[string]string{"cpuset.cpus": "0-1\n", "cpuset.mems": "0\n"} {
		if err := os.WriteFile(filepath.Join(cpuset, file), []byte(value), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	roots := []string{cpuset, memory}
	if err := createCgroup(roots, "gpuslice-7"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(cpuset, "gpuslice-7", "cpuset.cpus")); err != nil || string(got) != "0-1\n" {
		t.Errorf("cpus of the node = %q, %v; an empty set runs nothing", got, err)
	}
	if err := createCgroup(roots, "gpuslice-7"); err == nil {
		t.Error("two nodes would share one cgroup")
	}
	// The kernel removes the files of a cgroup with its folder; here the test does.
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		if err := os.Remove(filepath.Join(cpuset, "gpuslice-7", file)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(memory, "gpuslice-7", "kubepods", "pod1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := removeCgroup(t.Context(), roots, "gpuslice-7"); err != nil {
		t.Fatal(err)
	}
	for _, root := range roots {
		if _, err := os.Stat(filepath.Join(root, "gpuslice-7")); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", root, err)
		}
	}
	if err := removeCgroup(t.Context(), roots, "gpuslice-7"); err != nil {
		t.Errorf("removing nothing: %v", err)
	}
}

func TestAbandoned(t *testing.T) {
	names := []string{"gpuslice-1", "gpuslice-2", "gpuslice-x", "kubepods", "3"}
	got := abandoned(names, func(pid int) bool { return pid == 1 })
	if diff := cmp.Diff([]string{"gpuslice-2"}, got); diff != "" {
		t.Errorf("only cgroups of dead owners are ours to remove (-want +got):\n%s", diff)
	}
}
