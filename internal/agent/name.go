// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"cmp"
	"slices"
	"strings"

	"gpuslice/internal/state"
	"gpuslice/pkg/devices"
)

// namesOf decides what the GPUs are called where claims name their devices: gpu-<minor>, which a reload of the driver may move to
// other GPUs. A name that a claim holds stays with the GPU that it was given for, because for the scheduler the name is the device:
// it would give the other GPU away twice, and keep the one that is free. The others share what is left.
func namesOf(targets []Target, claims []state.Claim) []string {
	names, taken := make([]string, len(targets)), map[string]bool{}
	take := func(i int, name string) {
		if names[i] == "" && name != "" && !taken[name] {
			names[i], taken[name] = name, true
		}
	}
	bound := boundNames(claims)
	for i, t := range targets {
		take(i, bound[t.GPU.UUID])
	}
	order := answeringFirst(targets)
	for _, i := range order {
		take(i, targets[i].GPU.Name())
	}
	for _, i := range order {
		for _, other := range targets {
			take(i, other.GPU.Name())
		}
	}
	for i, t := range targets { // more GPUs than minor numbers: of two with one number at most one answers, which has the name
		names[i] = cmp.Or(names[i], t.GPU.Name())
	}
	return names
}

// boundNames are the names of GPUs that claims hold, by UUID.
func boundNames(claims []state.Claim) map[string]string {
	bound := map[string]string{}
	for _, c := range claims {
		for _, d := range c.Devices {
			if name, _, _ := strings.Cut(d.Name, "-mig-"); !d.Admin && bound[d.GPU] == "" {
				bound[d.GPU] = name
			}
		}
	}
	return bound
}

// answeringFirst orders targets by whether their GPU answers: the minor number of one that does not is that of before.
func answeringFirst(targets []Target) []int {
	order := make([]int, len(targets))
	for i := range order {
		order[i] = i
	}
	faulty := func(g devices.GPU) int {
		if g.Fault != nil {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(faulty(targets[a].GPU), faulty(targets[b].GPU)) })
	return order
}
