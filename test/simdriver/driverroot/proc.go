// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package driverroot

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"gpuslice/pkg/devices"
)

// proc is what a node shows in /proc as long as its instances do not change.
func proc(p Paths, s State) tree {
	t := tree{}
	add := func(e entry, path ...string) { t[filepath.Join(append([]string{p.Proc}, path...)...)] = e }
	add(text("%s\n", s.BootID), "sys/kernel/random/boot_id")
	add(text("Character devices:\n%s\nBlock devices:\n", majors(s.Loaded)), "devices")
	if !s.Loaded {
		add(text(""), "modules")
		return t
	}
	add(text("nvidia_uvm 4096 0 - Live 0x0000000000000000\nnvidia 4096 1 nvidia_uvm, Live 0x0000000000000000\n"), "modules")
	add(text("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  %s  Release Build\nGCC version:  gcc version 12.2.0\n", s.Version),
		"driver/nvidia/version")
	add(text("ModifyDeviceFiles: 1\nDeviceFileUID: 0\nDeviceFileGID: 0\nDeviceFileMode: %d\n", modeDevice), "driver/nvidia/params")
	for _, g := range s.GPUs {
		short := shortBusID(g.BusID)
		add(text("Model: \t\t %s\nGPU UUID: \t %s\nBus Type: \t PCIe\nBus Location: \t %s\nDevice Minor: \t %d\n",
			g.Product, g.UUID, short, g.Minor), "driver/nvidia/gpus", short, "information")
	}
	add(capability(capConfig, modeSpecial), "driver/nvidia/capabilities/mig/config")
	add(capability(capMonitor, modeSpecial), "driver/nvidia/capabilities/mig/monitor")
	add(text("%s", migMinors()), "driver/nvidia-caps/mig-minors")
	return t
}

func majors(loaded bool) string {
	lines := "  1 mem\n  5 /dev/tty\n"
	if loaded {
		lines += fmt.Sprintf("%d nvidia\n%d nvidia-modeset\n%d nvidiactl\n%d nvidia-caps\n%d nvidia-uvm\n",
			majorGPU, majorGPU, majorGPU, majorCaps, majorUVM)
	}
	return lines
}

// migMinors lists the minor number of every capability that any GPU may have.
func migMinors() string {
	var b strings.Builder
	fmt.Fprintf(&b, "config %d\nmonitor %d\n", capConfig, capMonitor)
	for gpu := range maxGPUs {
		for gi := range maxGIs {
			fmt.Fprintf(&b, "gpu%d/gi%d/access %d\n", gpu, gi, CapMinor(gpu, gi, devices.NoInstance))
			for ci := range maxCIs {
				fmt.Fprintf(&b, "gpu%d/gi%d/ci%d/access %d\n", gpu, gi, ci, CapMinor(gpu, gi, ci))
			}
		}
	}
	return b.String()
}

func capability(minor int, mode fs.FileMode) entry {
	return text("DeviceFileMinor: %d\nDeviceFileMode: %d\nDeviceFileModify: 1\n", minor, mode)
}

// capabilities is what appears and goes with instances.
func capabilities(p Paths, s State) tree {
	t := tree{}
	if !s.Loaded {
		return t
	}
	for _, g := range s.GPUs {
		if !g.MIG {
			continue
		}
		folder := filepath.Join(p.Proc, "driver/nvidia/capabilities", fmt.Sprintf("gpu%d", g.Minor), "mig")
		t[folder] = entry{mode: fs.ModeDir}
		for _, i := range g.Instances {
			gi := filepath.Join(folder, fmt.Sprintf("gi%d", i.GI))
			t[filepath.Join(gi, "access")] = capability(CapMinor(g.Minor, i.GI, devices.NoInstance), modeAccess)
			if i.CI != devices.NoInstance {
				ci := filepath.Join(gi, fmt.Sprintf("ci%d", i.CI))
				t[filepath.Join(ci, "access")] = capability(CapMinor(g.Minor, i.GI, i.CI), modeAccess)
			}
		}
	}
	return t
}

// shortBusID writes "00000000:3B:00.0" as the kernel does: "0000:3b:00.0", with more digits of the domain where it needs them.
func shortBusID(busID string) string {
	domain, rest, _ := strings.Cut(strings.ToLower(busID), ":")
	for len(domain) > 4 && domain[0] == '0' {
		domain = domain[1:]
	}
	return domain + ":" + rest
}
