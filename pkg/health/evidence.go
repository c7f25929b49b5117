// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package health

import (
	"fmt"
	"slices"
)

// Evidence is what may prove that a fault is over.
type Evidence int

// Evidences. Seen, read and answered mean: after whatever the State was told before.
const (
	ResetSeen  Evidence = iota // the GPU was reset, by whomever
	ActionRead                 // recovery action none was read, or what the caller takes for it where the driver has none
	DriverLoaded
	Booted
	Answered // the GPU answered
	Cleared  // an admin's annotation
)

var evidenceNames = []string{"reset seen", "recovery action none", "driver loaded", "booted", "answered", "cleared by an admin"}

func (e Evidence) String() string {
	if e < 0 || int(e) >= len(evidenceNames) {
		return fmt.Sprintf("evidence %d", int(e))
	}
	return evidenceNames[e]
}

// Heal takes out the faults that the evidence, with what was seen since they last happened, proves to be over.
//
// On a driver without recovery actions a reset proves nothing by itself. A boot or a driver load ends faults that need a reset
// at once, others when the GPU answers after it. That a report by others is taken back is no evidence.
func (s State) Heal(e Evidence) (State, []Change) {
	rest, changes := make([]Fault, 0, len(s.Faults)), []Change(nil)
	for _, f := range s.Faults {
		if f.healedBy(e) {
			changes = append(changes, Change{Kind: Healed, Fault: f, Evidence: e})
		} else {
			rest = append(rest, f.after(e))
		}
	}
	s.Faults = slices.Clip(rest)
	if len(rest) == 0 {
		s.Faults = nil
	}
	if e == DriverLoaded || e == Booted || e == Cleared {
		s.Resets = Attempts{}
	}
	return s, changes
}

func (f Fault) healedBy(e Evidence) bool {
	switch e {
	case Cleared:
		return true
	case ActionRead:
		return f.Class == Reset && f.ResetSeen
	case DriverLoaded, Booted:
		return f.Class == Reset
	case Answered:
		return f.Class != Reset && f.Reloaded
	default:
		return false
	}
}

// after returns the fault with an evidence noted that does not suffice yet.
func (f Fault) after(e Evidence) Fault {
	f.ResetSeen = f.ResetSeen || e == ResetSeen && f.Class == Reset
	f.Reloaded = f.Reloaded || e == DriverLoaded || e == Booted
	return f
}
