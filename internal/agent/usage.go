// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"fmt"
	"slices"

	"gpuslice/internal/config"
	"gpuslice/internal/kubelet"
	"gpuslice/internal/state"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/health"
	"gpuslice/pkg/mig"
	"gpuslice/pkg/timeslice"
)

// Usage is everything that may hold a device, at one moment.
type Usage struct {
	Allocations []kubelet.Allocation // by the kubelet's records and our own answers
	Claims      []state.Claim
	Processes   map[string][]devices.Process // by PCI address
	// Clients is what else works with a GPU whose MIG mode is about to change, by PCI address.
	Clients map[string][]string
	// Unknown says why a source cannot be trusted for a GPU, by PCI address; "" concerns every GPU.
	// What is unknown counts as in use (P2).
	Unknown map[string]string
	// Health is what is wrong with each GPU, by UUID; Failures says why this agent's reset of it did not help.
	Health   map[string]health.State
	Failures map[string]string
	// AccessLost says that all GPUs are lost at once, which is this process's way to them.
	AccessLost bool
	// Before is what this agent did until now.
	Before Before
}

// ClaimPrefix marks a holder that is a claim; "namespace/name" follows.
const ClaimPrefix = "claim "

// Before is the past as far as decisions need it.
type Before struct {
	// Policies is what was in force on each GPU, by PCI address: an entry that a GPU cannot follow leaves it as it was (P5).
	Policies map[string]config.Policy
	// Resources is every resource name that this node's agent ever offered: ids that are allocated under others are not ours.
	Resources []string
	// FailedResets says, by UUID, why a reset did not bring a GPU into its mode in this boot.
	FailedResets map[string]string
}

// unknownFor returns why nothing may be taken away from a GPU, or "".
func (u Usage) unknownFor(pci string) string {
	if why := u.Unknown[""]; why != "" {
		return why
	}
	return u.Unknown[pci]
}

// of turns the usage of a node into what concerns one GPU.
func (u Usage) of(g devices.GPU) mig.InUse {
	used := mig.InUse{Instances: map[int][]string{}}
	for _, a := range u.Allocations {
		holdUUID(&used, g, timeslice.DeviceOf(a.ID), a.Holder)
	}
	for _, c := range u.Claims {
		for _, d := range c.Devices {
			if !d.Admin && d.GPU == g.UUID {
				holdSlot(&used, g, d, ClaimPrefix+c.String())
			}
		}
	}
	for _, p := range u.Processes[g.PCI] {
		holder := fmt.Sprintf("pid %d", p.PID)
		if p.GI == devices.NoInstance { // which instance it uses is not said, so it may be any
			holdEverything(&used, g, holder)
		} else {
			used.Instances[p.GI] = append(used.Instances[p.GI], holder)
		}
	}
	used.GPU = append(used.GPU, u.Clients[g.PCI]...)
	if why := u.unknownFor(g.PCI); why != "" {
		holdEverything(&used, g, "unknown: "+why)
	}
	return used
}

func holdEverything(used *mig.InUse, g devices.GPU, holder string) {
	used.GPU = append(used.GPU, holder)
	for _, inst := range g.MIG.Instances {
		used.Instances[inst.GI] = append(used.Instances[inst.GI], holder)
	}
}

func holdUUID(used *mig.InUse, g devices.GPU, uuid, holder string) {
	if uuid == g.UUID {
		used.GPU = append(used.GPU, holder)
		return
	}
	for _, inst := range g.MIG.Instances {
		if inst.UUID == uuid {
			used.Instances[inst.GI] = append(used.Instances[inst.GI], holder)
		}
	}
}

// holdSlot goes by profile and start: a UUID does not prove that an instance is still the same.
func holdSlot(used *mig.InUse, g devices.GPU, d state.Device, holder string) {
	if d.Whole() {
		used.GPU = append(used.GPU, holder)
		return
	}
	for _, inst := range g.MIG.Instances {
		if inst.Slot.Profile.ID == d.ProfileID && inst.Slot.Start == d.Start {
			used.Instances[inst.GI] = append(used.Instances[inst.GI], holder)
		}
	}
}

// allocationsOn returns the classic allocations of a GPU and its instances.
func (u Usage) allocationsOn(g devices.GPU) []kubelet.Allocation {
	return slices.DeleteFunc(slices.Clone(u.Allocations), func(a kubelet.Allocation) bool {
		uuid := timeslice.DeviceOf(a.ID)
		return uuid != g.UUID && !slices.ContainsFunc(g.MIG.Instances, func(i mig.Instance) bool { return i.UUID == uuid })
	})
}

// claimHolds says that a claim holds the very device.
func (u Usage) claimHolds(d Device) bool {
	return slices.ContainsFunc(u.Claims, func(c state.Claim) bool {
		return slices.ContainsFunc(c.Devices, func(x state.Device) bool {
			return !x.Admin && x.GPU == d.GPU.UUID && (x.Whole() || d.Instance == nil ||
				x.ProfileID == d.Instance.Slot.Profile.ID && x.Start == d.Instance.Slot.Start)
		})
	})
}

// claimHolders names the claims that hold a GPU or a slot of it.
func (u Usage) claimHolders(gpuUUID string) []string {
	names := []string{}
	for _, c := range u.Claims {
		if slices.ContainsFunc(c.Devices, func(d state.Device) bool { return !d.Admin && d.GPU == gpuUUID }) {
			names = append(names, ClaimPrefix+c.String())
		}
	}
	return names
}
