// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package mig

import (
	"fmt"
	"strings"
)

// Kept is an instance that a plan leaves alone, and who holds it.
type Kept struct {
	Slot Slot
	By   []string
}

func (k Kept) String() string {
	if len(k.By) == 0 {
		return k.Slot.String()
	}
	return fmt.Sprintf("%s in use by %s", k.Slot, strings.Join(k.By, ", "))
}

// Reason says why a plan takes a step.
type Reason struct {
	Step Step
	Why  string
}

func (r Reason) String() string { return r.Step.String() + ": " + r.Why }

// Reasons explains the steps that do not follow from the wish alone: what goes, and for the sake of what.
func (p Plan) Reasons() []Reason {
	all := []Reason{}
	moved := Layout{} // creations that make up for an instance that goes
	for _, s := range p.Steps {
		d, ok := s.(Destroy)
		if !ok {
			continue
		}
		why := []string{}
		switch again, found := p.again(d.Instance.Slot, moved); {
		case d.Instance.Partial:
			why = append(why, "its compute instances are smaller than itself")
		case !d.Instance.Usable():
			why = append(why, "it has no compute instance")
		case found:
			moved = append(moved, again)
			why = append(why, fmt.Sprintf("moves to %s", again))
		}
		if over := p.over(d.Instance.Slot); len(over) > 0 {
			why = append(why, "is in the way of "+strings.Join(over, ", "))
		}
		if len(why) == 0 {
			why = append(why, p.unwanted())
		}
		all = append(all, Reason{Step: s, Why: strings.Join(why, ", ")})
	}
	return all
}

// again finds a creation of the same profile that no other instance has moved to.
func (p Plan) again(s Slot, moved Layout) (Slot, bool) {
	for _, made := range p.Creates() {
		if made.Profile.ID == s.Profile.ID && !moved.Has(made) {
			return made, true
		}
	}
	return Slot{}, false
}

// over names what is made where a slot was; the slot itself, made again, is not in its own way.
func (p Plan) over(s Slot) []string {
	names := []string{}
	for _, made := range p.Creates() {
		if made.Overlaps(s) && !made.Same(s) {
			names = append(names, made.String())
		}
	}
	return names
}

func (p Plan) unwanted() string {
	for _, s := range p.Steps {
		if mode, ok := s.(SetMode); ok && !mode.On {
			return "the layout is without MIG"
		}
	}
	return "not in the layout"
}

// Creates lists the slots that the plan makes instances at.
func (p Plan) Creates() []Slot {
	made := []Slot{}
	for _, s := range p.Steps {
		if c, ok := s.(Create); ok {
			made = append(made, c.Slot)
		}
	}
	return made
}
