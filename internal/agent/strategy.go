// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"fmt"
	"slices"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/mig"
)

// nameInstances applies NVIDIA's MIG strategies. Where a GPU is not as its strategy wants it the others are not taken down with
// it (P3): under none, a GPU in MIG mode is withheld; under single, instances that are not all alike keep the names of their
// profiles.
func nameInstances(targets []Target, offers []offering) []Problem {
	problems := []Problem{}
	single := []int{}
	for i, t := range targets {
		switch inMIG := t.GPU.MIG.Mode.Current; {
		case t.GPU.UUID == "":
		case t.Policy.MIGStrategy == "single":
			single = append(single, i)
			if inMIG && len(usableProfiles(t.GPU)) == 0 {
				problems = append(problems, mismatch(t.GPU.Name(), "it is in MIG mode and has no instance to offer, and flags.migStrategy is single"))
			}
		case t.Policy.MIGStrategy == "none" && inMIG:
			offers[i].api = ""
			problems = append(problems, mismatch(t.GPU.Name(), "withheld: it is in MIG mode, and flags.migStrategy is none"))
		}
	}
	return append(problems, nameSingle(targets, offers, single)...)
}

// nameSingle calls the instances of some targets nvidia.com/gpu if they are all alike and nothing else is called that.
func nameSingle(targets []Target, offers []offering, single []int) []Problem {
	profiles := []mig.Profile{}
	for _, i := range single {
		profiles = append(profiles, usableProfiles(targets[i].GPU)...)
	}
	const instead = "; instances are offered under the names of their profiles"
	switch {
	case len(profiles) == 0:
		return nil
	case slices.ContainsFunc(single, func(i int) bool { return !targets[i].GPU.MIG.Mode.Current }):
		return []Problem{mismatch("", "flags.migStrategy is single, and some GPUs are in MIG mode and some are not"+instead)}
	case slices.ContainsFunc(profiles, func(p mig.Profile) bool { return p != profiles[0] }):
		return []Problem{mismatch("", "flags.migStrategy is single, and the instances on this node differ"+instead)}
	}
	for i, t := range targets {
		if !slices.Contains(single, i) && !t.GPU.MIG.Mode.Current && t.GPU.UUID != "" && offers[i].api == DevicePlugin && offers[i].whole == gpuResource {
			return []Problem{mismatch("", fmt.Sprintf("flags.migStrategy is single, and %s is offered whole as %s%s", t.GPU.Name(), gpuResource, instead))}
		}
	}
	for _, i := range single {
		offers[i].instances = gpuResource
	}
	return nil
}

func mismatch(gpu, why string) Problem {
	return Problem{GPU: gpu, Reason: ReasonStrategyMismatch, Message: why}
}

func usableProfiles(g devices.GPU) []mig.Profile {
	profiles := []mig.Profile{}
	for _, inst := range g.MIG.Instances {
		if g.MIG.Mode.Current && inst.Usable() {
			profiles = append(profiles, inst.Slot.Profile)
		}
	}
	return profiles
}
