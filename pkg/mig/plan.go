// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package mig

import (
	"fmt"
	"slices"
	"strings"
)

// Mode is whether a GPU is in MIG mode now, and whether it will be after its next reset.
type Mode struct{ Current, Pending bool }

// Instance is a live slot. GI is the driver's id of the GPU instance; it says nothing about the placement.
type Instance struct {
	Slot Slot
	GI   int
	CI   int    // -1 when the GPU instance holds no compute instance that fills it
	UUID string // of the MIG device; empty without a compute instance
	// Index is the driver's number of the MIG device on its GPU, which shifts when others come and go; -1 without one.
	Index int
	// Partial says that the GPU instance holds compute instances smaller than itself.
	Partial bool
}

// Usable says that the instance is one MIG device over the whole slot.
func (i Instance) Usable() bool { return i.CI >= 0 && i.UUID != "" && !i.Partial }

// State is how one GPU is cut now.
type State struct {
	GPU       string // "gpu-0"
	Mode      Mode
	Instances []Instance
	// ModeNeedsReset says that the mode takes effect with a GPU reset only, as on Ampere.
	ModeNeedsReset bool
}

// Layout is the slots of the instances.
func (s State) Layout() Layout {
	slots := make([]Slot, len(s.Instances))
	for i, inst := range s.Instances {
		slots[i] = inst.Slot
	}
	return NewLayout(slots...)
}

// UsableLayout is the slots of the instances that can be offered; the others are made anew wherever they are wanted.
func (s State) UsableLayout() Layout {
	slots := []Slot{}
	for _, inst := range s.Instances {
		if inst.Usable() {
			slots = append(slots, inst.Slot)
		}
	}
	return NewLayout(slots...)
}

// Want is how one GPU shall be cut.
type Want struct {
	MIG    bool
	Layout Layout
	// MayAsk says that the driver may be asked for another mode although only a reset makes it so: some drivers reset by
	// themselves then.
	MayAsk bool
	// MayReset says that the GPU may be reset, once it is idle, to get into the mode.
	MayReset bool
}

// InUse says who holds what; a missing entry means idle.
type InUse struct {
	GPU       []string         // holders of the GPU as a whole
	Instances map[int][]string // holders by GI id
}

// Any lists every holder on the GPU.
func (u InUse) Any() []string {
	all := slices.Clone(u.GPU)
	for _, by := range u.Instances {
		all = append(all, by...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Step is one effect on hardware: SetMode, Reset, Destroy or Create.
type Step interface {
	fmt.Stringer
	step()
}

// SetMode switches MIG mode of an empty GPU.
type SetMode struct{ On bool }

// Reset resets an empty GPU, so that the mode that was set takes effect.
type Reset struct{}

// Destroy takes an idle instance away.
type Destroy struct{ Instance Instance }

// Create makes an instance at its slot.
type Create struct{ Slot Slot }

func (SetMode) step() {}
func (Reset) step()   {}
func (Destroy) step() {}
func (Create) step()  {}

func (s SetMode) String() string {
	if s.On {
		return "set mig=on"
	}
	return "set mig=off"
}
func (Reset) String() string     { return "reset" }
func (s Destroy) String() string { return "destroy " + s.Instance.Slot.String() }
func (s Create) String() string  { return "create " + s.Slot.String() }

// Blocker is a thing that a plan would have to take away although somebody holds it.
type Blocker struct {
	What string
	By   []string
}

func (b Blocker) String() string {
	return fmt.Sprintf("%s in use by %s", b.What, strings.Join(b.By, ", "))
}

// Plan is how one GPU gets from its state to what is wanted. Steps are complete even when Blocked or NeedsReset says that
// none of them may be taken now, so that it can be shown what waits.
type Plan struct {
	GPU        string
	Steps      []Step
	Kept       []Kept // what is not touched
	Blocked    []Blocker
	NeedsReset bool
}

// IsEmpty says that nothing is to be done.
func (p Plan) IsEmpty() bool { return len(p.Steps) == 0 }

// Runnable says that the steps may be taken now.
func (p Plan) Runnable() bool { return len(p.Steps) > 0 && len(p.Blocked) == 0 && !p.NeedsReset }

func (p Plan) String() string {
	steps := make([]string, len(p.Steps))
	for i, s := range p.Steps {
		steps[i] = s.String()
	}
	var text strings.Builder
	fmt.Fprintf(&text, "plan %s: %s", p.GPU, strings.Join(steps, "; "))
	for _, b := range p.Blocked {
		fmt.Fprintf(&text, "\nblocked %s: %s", p.GPU, b)
	}
	return text.String()
}

// Removes lists the instances that the plan takes away.
func (p Plan) Removes() []Instance {
	gone := []Instance{}
	for _, s := range p.Steps {
		if d, ok := s.(Destroy); ok {
			gone = append(gone, d.Instance)
		}
	}
	return gone
}

// Resets says that the plan resets the GPU.
func (p Plan) Resets() bool { return slices.Contains(p.Steps, Step(Reset{})) }

// ChangesMode says that the plan switches MIG mode, which concerns the GPU as a whole.
func (p Plan) ChangesMode() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { _, ok := s.(SetMode); return ok })
}
