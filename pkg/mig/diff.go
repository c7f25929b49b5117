// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package mig

// Diff is a set difference: destroy what is not wanted or not usable, switch the mode if it differs, create what is
// missing. Any subset of a legal layout is legal, so this order is feasible for every pair of layouts.
// When somebody holds what would have to go, the plan says so and none of its steps may be taken.
func Diff(have State, want Want, used InUse) Plan {
	plan := Plan{
		GPU:   have.GPU,
		Steps: make([]Step, 0, len(have.Instances)+len(want.Layout)+2),
		Kept:  make([]Kept, 0, len(have.Instances)),
	}
	for i := range have.Instances {
		inst := &have.Instances[i]
		by := used.Instances[inst.GI]
		if want.MIG && inst.Usable() && want.Layout.Has(inst.Slot) {
			plan.Kept = append(plan.Kept, Kept{Slot: inst.Slot, By: by})
			continue
		}
		plan.Steps = append(plan.Steps, Destroy{*inst})
		if len(by) > 0 {
			plan.Blocked = append(plan.Blocked, Blocker{What: inst.Slot.String(), By: by})
		}
	}
	plan.changeMode(have, want, used)
	if want.MIG {
		for i := range want.Layout {
			if s := &want.Layout[i]; !plan.keeps(s) {
				plan.Steps = append(plan.Steps, Create{*s})
			}
		}
	}
	return plan
}

// keeps goes by index, as Layout.Has does.
func (p *Plan) keeps(s *Slot) bool {
	for i := range p.Kept {
		if k := &p.Kept[i].Slot; k.Profile.ID == s.Profile.ID && k.Start == s.Start {
			return true
		}
	}
	return false
}

// changeMode adds the steps that bring the GPU into the wanted mode. Where only a reset does, and none may be made, the mode is
// not even asked for: the driver may reset by itself to make it so.
func (p *Plan) changeMode(have State, want Want, used InUse) {
	if have.Mode.Current == want.MIG {
		p.setBack(have, want, used)
		return
	}
	p.Steps = append(p.Steps, SetMode{On: want.MIG})
	switch {
	case !have.ModeNeedsReset:
	case want.MayReset:
		p.Steps = append(p.Steps, Reset{})
	default:
		p.NeedsReset = true
	}
	if len(used.GPU) > 0 {
		p.Blocked = append(p.Blocked, Blocker{What: have.GPU, By: used.GPU})
	}
}

// setBack undoes a mode that was set by somebody and would come true with the next reset.
func (p *Plan) setBack(have State, want Want, used InUse) {
	if have.Mode.Pending != want.MIG && len(used.Any()) == 0 && (want.MayAsk || !have.ModeNeedsReset) {
		p.Steps = append(p.Steps, SetMode{On: want.MIG})
	}
}
