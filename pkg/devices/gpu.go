// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices

import (
	"fmt"
	"strings"

	"gpuslice/pkg/mig"
	"gpuslice/pkg/topology"
)

// Node is what the driver said about all GPUs of a node at one moment.
type Node struct {
	DriverVersion string // "580.65.06"
	CUDAVersion   int    // 1000*major + 10*minor; 0 = not said
	GPUs          []GPU  // by PCI bus id
	Silent        int    // GPUs that the driver counts and of which nothing is known, not even the address
	// Unsupported is why GPUs that are on no bus cannot be handed out.
	Unsupported []error
	// Links says how GPUs reach each other, by PCI address, as ReadLinks found it last; what is not known is not in it.
	Links topology.Matrix
	// Load names the load of the kernel module that answered; another one comes with every load. "" = not known.
	Load string
}

// GPU is one physical GPU. A GPU with a Fault keeps what was last known of it.
type GPU struct {
	Index        int
	Minor        int
	UUID         string
	Product      string
	Model        string // short key, see ModelOf
	PCI          string // "0000:65:00.0"
	PCIDevice    uint32 // device in the upper half, vendor in the lower; 0 = the driver does not say
	PCISubsystem uint32
	NUMA         int    // -1 = unknown
	MemoryMiB    uint64 // 0 = not known; of a GPU with unified memory it is the host's
	Unified      bool   // the GPU has no memory of its own and works in the host's
	Virtual      bool   // a part of a GPU of the host that this machine runs on, which has cut it
	Brand        int
	Architecture int
	ComputeMajor int
	ComputeMinor int
	Geometry     mig.Geometry // zero: cannot be cut, unless ProfilesUnread
	MIG          mig.State
	// ProfilesUnread says that a look which was not to take long has not asked how the GPU can be cut; it is whole.
	ProfilesUnread bool
	// Signs are of the same moment as the rest.
	Signs Signs
	// Polled says that the driver does not tell this GPU's events: what is wrong with it is found by reading it every now and then.
	Polled bool
	// Fault is why the GPU could not be read this time; its other values are then from the last good reading.
	Fault error
	// Lost says that the GPU is off the bus: it answered so in two sessions of the driver.
	Lost bool
	// Unsupported is why the GPU cannot be handed out at all; what else is said of it may be incomplete.
	Unsupported error
	// Released is why this process keeps its hands off the GPU, so that others can reset or reload it; "" = it does not.
	// The other values are then from the last reading.
	Released string
}

// Name is how messages and DRA call the GPU: by the minor number of its device node.
func (g GPU) Name() string { return fmt.Sprintf("gpu-%d", g.Minor) }

// IsMIGCapable says whether the driver can cut this GPU.
func (g GPU) IsMIGCapable() bool { return !g.Geometry.IsZero() }

// String prints the notation: gpu-0 h100-sxm5-80gb mig=on [3g.40gb@4 1g.10gb@0].
func (g GPU) String() string {
	text := g.Name() + " " + g.Model
	switch {
	case !g.IsMIGCapable():
	case g.MIG.Mode.Current:
		text += " mig=on " + g.MIG.Layout().String()
	default:
		text += " mig=off"
	}
	if g.IsMIGCapable() && g.MIG.Mode.Current != g.MIG.Mode.Pending {
		text += fmt.Sprintf(" pending=%s", onOff(g.MIG.Mode.Pending))
	}
	if g.Released != "" {
		text += " released=" + fmt.Sprintf("%q", g.Released)
	}
	if g.Unsupported != nil {
		text += " unsupported=" + fmt.Sprintf("%q", g.Unsupported.Error())
	}
	if g.Fault != nil {
		text += " fault=" + fmt.Sprintf("%q", g.Fault.Error())
	}
	return text
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// shortBusID turns the driver's "00000000:65:00.0" into the kernel's "0000:65:00.0", and "00010000:65:00.0" into "10000:65:00.0":
// the kernel writes no more digits than four unless the domain needs them.
func shortBusID(id string) string {
	domain, rest, found := strings.Cut(strings.ToLower(id), ":")
	if !found {
		return strings.ToLower(id)
	}
	for len(domain) > 4 && domain[0] == '0' {
		domain = domain[1:]
	}
	return domain + ":" + rest
}

// longBusID is the inverse of shortBusID.
func longBusID(id string) string {
	domain, rest, found := strings.Cut(strings.ToUpper(id), ":")
	if !found {
		return strings.ToUpper(id)
	}
	return strings.Repeat("0", max(0, 8-len(domain))) + domain + ":" + rest
}
