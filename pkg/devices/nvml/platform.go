// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build cgo

package nvml

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/NVIDIA/go-nvlib/pkg/nvlib/info"

	"gpuslice/pkg/devices"
)

// Platform implements devices.Platforms with go-nvlib's marks of each kind. It is not asked whether there is NVML or an integrated
// GPU: it would open a session of its own for that, and Init says both.
func (h Host) Platform() devices.Platform {
	if isFile(filepath.Join(h.DevRoot, "dev/dxg")) {
		return devices.Platform{Name: devices.WSL, Found: "/dev/dxg"}
	}
	if h.isMicrosoft() { // loading a library that is not there takes longer than all else here
		if has, _ := info.New(info.WithRoot(h.DriverRoot)).HasDXCore(); has {
			return devices.Platform{Name: devices.WSL, Found: "libdxcore.so"}
		}
	}
	for _, root := range h.tegraRoots() {
		if has, mark := info.New(info.WithRoot(root)).HasTegraFiles(); has {
			return devices.Platform{Name: devices.Tegra, Found: strings.TrimSuffix(mark, " found")}
		}
	}
	return devices.Platform{}
}

// isMicrosoft says that the kernel is the one that comes with WSL.
func (h Host) isMicrosoft() bool {
	release, err := devices.ReadHostFile(filepath.Join(h.ProcRoot, "sys/kernel/osrelease"))
	return err == nil && strings.Contains(strings.ToLower(release), "microsoft")
}

// tegraRoots are where go-nvlib may look for etc/nv_tegra_release and sys/devices/soc0/family: it reads the latter whatever is in
// its place.
func (h Host) tegraRoots() []string {
	roots := []string{h.DriverRoot}
	if filepath.Base(h.SysRoot) == "sys" && filepath.Dir(h.SysRoot) != filepath.Clean(h.DriverRoot) {
		roots = append(roots, filepath.Dir(h.SysRoot))
	}
	readable := []string{}
	for _, root := range roots {
		family := filepath.Join(root, "sys/devices/soc0/family")
		_, err := devices.ReadHostFile(family)
		if err == nil || os.IsNotExist(err) {
			readable = append(readable, root)
		}
	}
	return readable
}

// isFile says that there is something that is no folder, such as a device.
func isFile(path string) bool {
	about, err := os.Stat(path)
	return err == nil && !about.IsDir()
}

// IsIntegrated implements devices.Platforms.
func (Host) IsIntegrated(product string) bool { return info.IsIntegratedGPUName(product) }
