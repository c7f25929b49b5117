// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package mig

// Diff is a set difference: destroy what is not wanted or not usable, switch the mode if it differs, create what is
// missing. Any subset of a legal layout is legal, so this order is feasible for every pair of layouts.
// When somebody holds what would have to go, the plan says so and none of its steps may be taken.
func Diff(have State, want Want, used InUse) Plan {
	plan := Plan{GPU: have.GPU}
	kept := []Slot{}
	for _, inst := range have.Instances {
		if want.MIG && inst.Usable() && want.Layout.Has(inst.Slot) {
			kept = append(kept, inst.Slot)
			continue
		}
		plan.Steps = append(plan.Steps, Destroy{inst})
		if by := used.Instances[inst.GI]; len(by) > 0 {
			plan.Blocked = append(plan.Blocked, Blocker{What: inst.Slot.String(), By: by})
		}
	}
	if have.Mode.Current != want.MIG {
		plan.Steps = append(plan.Steps, SetMode{On: want.MIG})
		plan.NeedsReset = have.ModeNeedsReset
		if len(used.GPU) > 0 {
			plan.Blocked = append(plan.Blocked, Blocker{What: have.GPU, By: used.GPU})
		}
	}
	if want.MIG {
		for _, s := range want.Layout.Minus(NewLayout(kept...)) {
			plan.Steps = append(plan.Steps, Create{s})
		}
	}
	return plan
}
