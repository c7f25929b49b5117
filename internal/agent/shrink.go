// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"slices"

	"gpuslice/pkg/mig"
)

// shrink takes out of a view what plans are about to change: it may be smaller than what follows, never larger.
// Entries that somebody holds stay; they are no longer given out because they carry a fault.
func shrink(v View, plans []mig.Plan) View {
	leaving := func(d Device) bool {
		i := slices.IndexFunc(plans, func(p mig.Plan) bool { return p.GPU == d.GPU.Name() })
		if i < 0 {
			return false
		}
		return plans[i].ChangesMode() || plans[i].Resets() || d.Instance != nil &&
			slices.ContainsFunc(plans[i].Removes(), func(r mig.Instance) bool { return r.GI == d.Instance.GI })
	}
	small := v
	small.Devices = slices.DeleteFunc(slices.Clone(v.Devices), leaving)
	small.Lists = map[string][]Listed{}
	for resource, list := range v.Lists {
		small.Lists[resource] = slices.DeleteFunc(slices.Clone(list), func(l Listed) bool {
			return l.Device != nil && leaving(*l.Device)
		})
	}
	return small
}
