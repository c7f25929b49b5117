// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build cgo

package nvml

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gpuslice/pkg/devices"
)

// K14, K15: the kind of machine is read below the roots of the host, not in the container of the agent, and nothing that is in the
// place of a file keeps it from being read.
func TestPlatformIsThatOfTheHost(t *testing.T) {
	type files map[string]string
	for _, tc := range []struct {
		name  string
		files files
		want  devices.Platform
	}{
		{"a server", files{"sys/devices/soc0/family": "Snapdragon\n"}, devices.Platform{}},
		{"nothing at all", nil, devices.Platform{}},
		{"Jetson", files{"driver/etc/nv_tegra_release": "# R36"}, devices.Platform{Name: devices.Tegra, Found: "driver/etc/nv_tegra_release"}},
		{"Jetson by its chip", files{"sys/devices/soc0/family": "Tegra\n"}, devices.Platform{Name: devices.Tegra, Found: "sys/devices/soc0/family"}},
		{"WSL", files{"dev-root/dev/dxg": ""}, devices.Platform{Name: devices.WSL, Found: "/dev/dxg"}},
		{"the kernel of WSL without a GPU", files{"proc/sys/kernel/osrelease": "5.15.167.4-microsoft-standard-WSL2\n"}, devices.Platform{}},
		{"folders in place of files", files{"driver/etc/nv_tegra_release/x": "", "sys/devices/soc0/family/x": "", "dev-root/dev/dxg/x": ""}, devices.Platform{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := t.TempDir()
			for name, text := range tc.files {
				write(t, filepath.Join(root, name), text)
			}
			got := hostUnder(root).Platform()
			if got.Name != tc.want.Name || !strings.HasPrefix(strings.TrimPrefix(got.Found, root+"/"), tc.want.Found) {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
		})
	}
}

func hostUnder(root string) Host {
	return Host{DriverRoot: filepath.Join(root, "driver"), DevRoot: filepath.Join(root, "dev-root"), ProcRoot: filepath.Join(root, "proc"), SysRoot: filepath.Join(root, "sys")}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// P11: go-nvlib would wait for ever for a pipe, and read all of an endless file.
func TestPlatformIsBounded(t *testing.T) {
	for name, plant := range map[string]func(path string) error{
		"pipe":    func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"endless": func(path string) error { return os.Symlink("/dev/zero", path) },
		"huge":    func(path string) error { return os.WriteFile(path, make([]byte, 1<<20), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for _, base := range []string{root, filepath.Join(root, "driver")} {
				family := filepath.Join(base, "sys/devices/soc0/family")
				if err := os.MkdirAll(filepath.Dir(family), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := plant(family); err != nil {
					t.Fatal(err)
				}
			}
			if got := hostUnder(root).Platform(); got != (devices.Platform{}) {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestIntegratedGPUs(t *testing.T) {
	for product, want := range map[string]bool{"Orin (nvgpu)": true, "NVIDIA Thor": true, "NVIDIA GB10": false, "NVIDIA H100 80GB HBM3": false, "GRID A100D-40C": false, "": false} {
		if got := (Host{}).IsIntegrated(product); got != want {
			t.Errorf("%q is integrated: %t", product, got)
		}
	}
}

// The look at the host is a part of every start.
func BenchmarkPlatform(b *testing.B) {
	h := Host{DriverRoot: "/", DevRoot: "/", ProcRoot: "/proc", SysRoot: "/sys"}
	for b.Loop() {
		h.Platform()
	}
}
