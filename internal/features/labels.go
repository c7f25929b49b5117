// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package features

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpuslice/internal/agent"
	"gpuslice/pkg/devices"
)

// Host is what is known of a node beside its driver.
type Host struct {
	Machine string         // by its firmware; "" = not known
	PCI     map[string]PCI // by address
}

// PCI is what the kernel says of a GPU.
type PCI struct {
	Class uint32            // 0 = not known
	VGPU  *devices.VGPUMark // nil = not known
}

// domain is of the labels that are ours alone, nvidia of those that GPU Feature Discovery has too.
const (
	domain = "gpuslice.dev/"
	nvidia = "nvidia.com/"
)

// ModeLabel says in which way a node offers its GPUs.
const ModeLabel = domain + "mode"

// MonitorLabel says how faults of the GPUs come to light: by events, or by a poll where the driver tells none of some GPU.
const MonitorLabel = domain + "health-monitor"

const (
	mixed = "mixed" // offers in several ways, or several GPUs that differ
	none  = "none"
)

// PCI classes.
const (
	classVGA = 0x030000
	class3D  = 0x030200
)

// Of computes the labels of a view. GPUs that are faulty or released count as what they were when they answered.
func Of(v *agent.View, host Host) Set {
	if v == nil || v.Unseen {
		return Set{Partial: true}
	}
	n := node{View: v, host: host}
	partial := v.Node.Silent > 0
	for _, t := range v.Targets {
		switch g := t.GPU; {
		case g.Unsupported != nil:
		case g.UUID == "":
			partial = true
		default:
			n.gpus = append(n.gpus, g)
		}
	}
	slices.SortFunc(n.gpus, func(a, b devices.GPU) int { return cmp.Compare(a.PCI, b.PCI) })
	inventory, others := labels{}, labels{}
	if len(n.gpus) > 0 {
		n.strategy = n.strategyOf()
		n.machine(others)
		n.inventory(inventory)
		n.offer(inventory, others)
		others.put(MonitorLabel, n.monitor())
	}
	if len(n.gpus) > 0 || !partial {
		others.put(ModeLabel, modeOf(v.Ways))
	}
	return Set{Inventory: inventory.lines(), Others: others.lines(), Partial: partial}
}

// node is a view with what is looked for in it again and again.
type node struct {
	*agent.View
	host     Host
	gpus     []devices.GPU // that say what they are, by address
	strategy string
}

func modeOf(ways []agent.Way) string {
	switch len(ways) {
	case 0:
		return none
	case 1:
		return string(ways[0])
	}
	return mixed
}

// monitor is the lesser one where GPUs differ.
func (n node) monitor() string {
	if slices.ContainsFunc(n.gpus, func(g devices.GPU) bool { return g.Polled }) {
		return "poll"
	}
	return "events"
}

// machine writes what does not depend on the GPUs.
func (n node) machine(to labels) {
	to.put(nvidia+"gpu.present", "true")
	to.put(nvidia+"mps.capable", "false")
	to.put(nvidia+"gpu.machine", cmp.Or(sanitised(n.host.Machine, maxValue), "unknown"))
	if version := n.Node.DriverVersion; version != "" {
		to.put(nvidia+"cuda.driver-version.full", version)
		if parts := strings.Split(version, "."); len(parts) == 2 || len(parts) == 3 {
			parts = append(parts, "")
			for i, names := range [][]string{{"driver.major", "driver-version.major"}, {"driver.minor", "driver-version.minor"}, {"driver.rev", "driver-version.revision"}} {
				for _, name := range names {
					to.put(nvidia+"cuda."+name, parts[i])
				}
			}
		}
	}
	if cuda := n.Node.CUDAVersion; cuda > 0 {
		major, minor := cuda/1000, cuda%1000/10
		for _, name := range []string{"runtime", "runtime-version"} {
			to.put(nvidia+"cuda."+name+".major", strconv.Itoa(major))
			to.put(nvidia+"cuda."+name+".minor", strconv.Itoa(minor))
		}
		to.put(nvidia+"cuda.runtime-version.full", fmt.Sprintf("%d.%d", major, minor))
	}
}

// inventory writes what is true of the GPUs however they are offered.
func (n node) inventory(to labels) {
	capable, inMIG, models := false, 0, map[string]int{}
	for _, g := range n.gpus {
		capable = capable || g.IsMIGCapable() || g.ProfilesUnread
		if g.MIG.Mode.Current {
			inMIG++
		}
		models[modelKey(g)]++
	}
	to.put(nvidia+"mig.capable", strconv.FormatBool(capable))
	to.put(domain+"gpu.count.full", strconv.Itoa(len(n.gpus)-inMIG))
	to.put(domain+"gpu.count.mig", strconv.Itoa(inMIG))
	for key, count := range models {
		to.put(domain+key+countSuffix, strconv.Itoa(count))
	}
	to.known(nvidia+"gpu.mode", n.class())
	n.vgpu(to)
}

// class is GPU Feature Discovery's word for the PCI class that all GPUs have.
func (n node) class() string {
	found := uint32(0)
	for _, g := range n.gpus {
		switch class := n.host.PCI[g.PCI].Class; {
		case class == 0:
		case found != 0 && found != class:
			return "unknown"
		default:
			found = class
		}
	}
	switch found {
	case 0:
		return ""
	case classVGA:
		return "graphics"
	case class3D:
		return "compute"
	}
	return "unknown"
}

// vgpu tells whether GPUs are parts of some of the host that this machine runs on. That none is takes proof.
func (n node) vgpu(to labels) {
	known, present := false, false
	for _, g := range n.gpus {
		mark := n.host.PCI[g.PCI].VGPU
		known = known || g.Virtual || mark != nil
		present = present || g.Virtual || mark != nil && mark.Virtual
		if mark == nil || !mark.Virtual || to[nvidia+"vgpu.host-driver-version"] != "" {
			continue
		}
		to.known(nvidia+"vgpu.host-driver-version", sanitised(mark.HostVersion, maxValue))
		to.known(nvidia+"vgpu.host-driver-branch", sanitised(mark.HostBranch, maxValue))
	}
	if known {
		to.put(nvidia+"vgpu.present", strconv.FormatBool(present))
	}
}
