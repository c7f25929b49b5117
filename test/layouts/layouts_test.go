// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package layouts_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"tags.cncf.io/container-device-interface/specs-go"

	"gpuslice/test/simdriver/driverroot"
	"gpuslice/test/specwalk"
)

// C03: what a container gets of the driver, for every place where the driver may be installed. The golden files were written by
// hand: left of "<-" is the path in the container, which is that of the driver root; right of it the path on the host. A spec
// that names something else, or what is not there, is wrong. C01: every layout has a spec at all.
func TestLayouts(t *testing.T) {
	for _, tt := range []struct {
		name, root string
		layout     driverroot.Layout
		golden     string
	}{
		{"driver container", "run/nvidia/driver", driverroot.RedHat(), "redhat"},
		{"driver container of Debian", "run/nvidia/driver", driverroot.Debian(), "debian"},
		{"GKE", "home/kubernetes/bin/nvidia", driverroot.COS(), "cos"},
		{"merged usr", "run/nvidia/driver", driverroot.Merged(), "merged"},
		{"merged usr, absolute links", "run/nvidia/driver", driverroot.MergedAbsolute(), "merged"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t, tt.root, tt.layout)
			n.start()
			n.healthy(2, 2)
			n.agrees(tt.golden, n.paths.Root)
			n.silence()
		})
	}
}

// C01, C03: a driver that packages installed on the host itself: every path is the same on the host.
func TestLayoutOfAHost(t *testing.T) {
	n := newNode(t, "root", driverroot.Debian())
	undo, err := n.paths.OntoHost()
	t.Cleanup(func() {
		if err := undo(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	n.start("--driver-root=/", "--dev-root=/")
	n.healthy(2, 2)
	n.agrees("host", "")
}

// agrees compares the published spec with a golden file.
func (n *node) agrees(golden, root string) {
	n.t.Helper()
	want, err := os.ReadFile(filepath.Join("test/layouts/testdata", golden+".txt"))
	if err != nil {
		n.t.Fatal(err)
	}
	path := filepath.Join(n.cdiDir, specFile)
	n.until("the spec", func() error { return specwalk.File(path) })
	text, err := os.ReadFile(path)
	if err != nil {
		n.t.Fatal(err)
	}
	var spec specs.Spec
	if err := json.Unmarshal(text, &spec); err != nil {
		n.t.Fatal(err)
	}
	lines := linesOf("common", spec.ContainerEdits)
	for _, d := range spec.Devices {
		if !strings.HasPrefix(d.Name, "GPU-") && !strings.HasPrefix(d.Name, "MIG-") { // the same under another name
			lines = append(lines, linesOf("device "+d.Name, d.ContainerEdits)...)
		}
	}
	slices.Sort(lines)
	expected := slices.DeleteFunc(strings.Split(string(want), "\n"), func(line string) bool { return line == "" || strings.HasPrefix(line, "#") })
	for i, line := range expected {
		expected[i] = strings.ReplaceAll(line, "{root}", root)
	}
	slices.Sort(expected)
	if diff := cmp.Diff(expected, lines); diff != "" {
		n.t.Errorf("spec (-want +got):\n%s", diff)
	}
	if err := specwalk.Directory(n.cdiDir); err != nil {
		n.t.Error(err)
	}
}

func linesOf(whose string, e specs.ContainerEdits) []string {
	lines := []string{}
	for _, x := range e.Env {
		lines = append(lines, fmt.Sprintf("%s env %s", whose, x))
	}
	for _, x := range e.DeviceNodes {
		host := x.HostPath
		if host == "" && !strings.HasPrefix(x.Path, "/dev/nvidia-caps/") { // made by number, wherever it is on the host
			host = x.Path
		}
		lines = append(lines, fmt.Sprintf("%s node %s <- %s %d:%d %s", whose, x.Path, host, x.Major, x.Minor, x.Permissions))
	}
	for _, x := range e.Mounts {
		lines = append(lines, fmt.Sprintf("%s mount %s <- %s", whose, x.ContainerPath, x.HostPath))
	}
	for _, x := range e.Hooks {
		lines = append(lines, fmt.Sprintf("%s hook %s %s", whose, x.HookName, strings.Join(x.Args, " ")))
	}
	return lines
}

// C01: when the driver cannot be found, every path that was tried is named, and the flag that says where to look.
func TestNotFound(t *testing.T) {
	for _, tt := range []struct{ name, file, reason, library string }{
		{"management library", "libnvidia-ml.so.1", "NoDriver", "libnvidia-ml.so.1"},
		{"compute library", "libcuda.so.1", "DriverFilesMissing", "libcuda.so.1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t, "run/nvidia/driver", driverroot.RedHat())
			if err := os.Rename(filepath.Join(n.paths.Libraries(), tt.file), filepath.Join(n.dir, "kept")); err != nil {
				t.Fatal(err)
			}
			n.start()
			said := n.problem(tt.reason, "--driver-root="+n.paths.Root)
			for _, dir := range []string{
				"usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib/x86_64-linux-gnu/nvidia/current",
				"usr/lib/aarch64-linux-gnu/nvidia/current", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu",
			} {
				if path := filepath.Join(n.paths.Root, dir, tt.library); !strings.Contains(said, path) {
					t.Errorf("%s was tried and is not named: %s", path, said)
				}
			}
			if err := os.Rename(filepath.Join(n.dir, "kept"), filepath.Join(n.paths.Libraries(), tt.file)); err != nil {
				t.Fatal(err)
			}
			n.healthy(2, 2)
			n.silence()
		})
	}
}
