// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package driverroot

import (
	"fmt"
	"io/fs"
	"path/filepath"

	"gpuslice/pkg/devices"
)

// Major numbers: NVIDIA's own is registered for good, the others are given by the kernel when a module is loaded.
const (
	majorGPU  = 195
	majorCaps = 235
	majorUVM  = 508

	minorModeset = 254
	minorControl = 255
)

// The numbering of capabilities in the kernel module: 32 GPUs, 15 GPU instances each, 8 compute instances each.
const (
	capConfig  = 1
	capMonitor = 2

	maxGPUs = 32
	maxGIs  = 15
	maxCIs  = 8
)

// CapMinor is the minor number of the node that gives access to an instance; ci NoInstance asks for the GPU instance.
func CapMinor(gpuMinor, gi, ci int) int {
	minor := capMonitor + 1 + gpuMinor*maxGIs*(maxCIs+1) + gi*(maxCIs+1)
	if ci == devices.NoInstance {
		return minor
	}
	return minor + 1 + ci
}

// CapNode is the name of a capability's node below /dev.
func CapNode(minor int) string { return fmt.Sprintf("nvidia-caps/nvidia-cap%d", minor) }

// ControlNode is the name below /dev of what every client of the driver opens first.
const ControlNode = "nvidiactl"

// ConfigNode is the node of the right to make and destroy instances.
var ConfigNode = CapNode(capConfig)

// MonitorNode is the node of the right to see all instances.
var MonitorNode = CapNode(capMonitor)

// GPUNode is the name of a GPU's node below /dev.
func GPUNode(minor int) string { return fmt.Sprintf("nvidia%d", minor) }

// Permissions of nodes, as the driver's parameters and capability files tell them.
const (
	modeDevice  fs.FileMode = 0o666
	modeAccess  fs.FileMode = 0o444
	modeSpecial fs.FileMode = 0o400
)

func nodes(p Paths, s State) tree {
	t := tree{}
	add := func(name string, e entry) { t[filepath.Join(p.Dev, "dev", name)] = e }
	add(ControlNode, node(majorGPU, minorControl, modeDevice))
	add("nvidia-modeset", node(majorGPU, minorModeset, modeDevice))
	add("nvidia-uvm", node(majorUVM, 0, modeDevice))
	add("nvidia-uvm-tools", node(majorUVM, 1, modeDevice))
	add(ConfigNode, node(majorCaps, capConfig, modeSpecial))
	add(MonitorNode, node(majorCaps, capMonitor, modeSpecial))
	for _, g := range s.GPUs {
		add(GPUNode(g.Minor), node(p.major(), g.Minor, modeDevice))
		if !g.CanMIG {
			continue
		}
		for gi := range maxGIs {
			for ci := devices.NoInstance; ci < maxCIs; ci++ {
				minor := CapMinor(g.Minor, gi, ci)
				add(CapNode(minor), node(majorCaps, minor, modeAccess))
			}
		}
	}
	return t
}
