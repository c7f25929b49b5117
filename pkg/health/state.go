// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package health

import (
	"slices"
	"time"
)

// Bounds of a State, which reports of any number and kind cannot pass.
const (
	// MaxFaults is how many faults are kept apart: 14 instances at most, and few kinds of faults for each.
	MaxFaults = 64
	// MaxXIDs is how many XIDs are counted apart; NVIDIA's catalog has fewer than 200.
	MaxXIDs = 256
)

// Count is how often something was reported.
type Count struct {
	Source Source `json:"source"`
	XID    uint64 `json:"xid,omitempty"`
	N      uint64 `json:"n"`
}

// State is the health of one GPU. The zero value is a GPU of which nothing is known to be wrong. It is a value: methods return
// a new one and leave the old as it was.
type State struct {
	Faults []Fault  `json:"faults,omitempty"` // in order of their first report; all of them make something unhealthy
	Counts []Count  `json:"counts,omitempty"` // of all observations, faults or not
	Others uint64   `json:"others,omitempty"` // observations of XIDs beyond MaxXIDs
	Resets Attempts `json:"resets,omitzero"`
}

// ChangeKind is what became of a fault.
type ChangeKind string

// Kinds of changes. A fault that is reported again in the same class is no change.
const (
	Noted     ChangeKind = "noted" // application: nothing becomes unhealthy
	Appeared  ChangeKind = "appeared"
	Escalated ChangeKind = "escalated"
	Healed    ChangeKind = "healed"
)

// Change is worth an Event.
type Change struct {
	Kind     ChangeKind
	Fault    Fault    // as it is now; of one that is healed, as it was
	Evidence Evidence // of one that is healed
}

// Observe takes a report in.
//
// It never lowers: an observation below Reset is counted and touches no fault, not even its own. A recovery action is the
// GPU's and names no culprit. Where it alone makes a fault of a report, and a fault that demands as much stands already, it is
// that fault's: a neighbour of an ill instance is not blamed for its own small errors, and stays pending. Read without a
// report it is the fault of all of the GPU if no instance has one, and a culprit that is named later does not change that.
// Read as none it is no report but half of an evidence.
func (s State) Observe(p Policy, o Observation, now time.Time) (State, []Change) {
	o = o.normal()
	if o.Source == Recovery && o.Action <= ActionNone {
		return s, nil
	}
	s = s.count(o)
	class, at := p.Class(o), stamp(now)
	table, decided := p.table(o)
	if !decided {
		o = o.voice()
	}
	s.Faults = slices.Clone(s.Faults)
	if class >= Reset && table < Reset && s.find(o) < 0 {
		class = s.blame(o, class, table, at)
	}
	switch {
	case class >= Reset:
		return s.fault(o, class, at)
	case class == Application:
		return s, []Change{{Kind: Noted, Fault: newFault(o, class, at)}}
	default:
		return s, nil
	}
}

// blame returns what is left of a class that the recovery action alone demands.
func (s State) blame(o Observation, class, table Class, at time.Time) Class {
	switch {
	case o.Source == Recovery && s.charge(o, class, at):
		return Information
	case o.Source != Recovery && s.demands(class):
		return table
	default:
		return class
	}
}

func (s State) find(o Observation) int {
	return slices.IndexFunc(s.Faults, func(f Fault) bool { return f.same(o) })
}

// charge puts a recovery action down to the faults of instances that demand as much, if there are any.
func (s State) charge(o Observation, class Class, at time.Time) bool {
	found := false
	for i, f := range s.Faults {
		if f.GI >= 0 && f.Class >= class {
			s.Faults[i], found = f.again(f.Class, o, at), true
		}
	}
	return found
}

// demands says whether a fault explains a recovery action: one after which a reset or a load was seen does not any more.
func (s State) demands(class Class) bool {
	return slices.ContainsFunc(s.Faults, func(f Fault) bool { return f.Class >= class && !f.ResetSeen && !f.Reloaded })
}

// fault adds to the faults, which are this state's own.
func (s State) fault(o Observation, class Class, at time.Time) (State, []Change) {
	i := s.find(o)
	if i < 0 && len(s.Faults) >= MaxFaults {
		i, o = s.room(o)
	}
	if i < 0 {
		f := newFault(o, class, at)
		s.Faults = append(s.Faults, f)
		return s, []Change{{Kind: Appeared, Fault: f}}
	}
	before := s.Faults[i].Class
	s.Faults[i] = s.Faults[i].again(class, o, at)
	if s.Faults[i].Class == before {
		return s, nil
	}
	return s, []Change{{Kind: Escalated, Fault: s.Faults[i]}}
}

// room finds the fault that stands for one too many: one of the same place, else one of the whole GPU, because what is not kept
// apart must not be lost.
func (s State) room(o Observation) (int, Observation) {
	if i := slices.IndexFunc(s.Faults, func(f Fault) bool { return f.GI == o.GI }); i >= 0 {
		return i, o
	}
	o = Observation{Source: Reported, Reason: "more faults than are kept apart"}.normal()
	return s.find(o), o
}

func newFault(o Observation, class Class, at time.Time) Fault {
	return Fault{
		Source: o.Source, XID: o.XID, GI: o.GI, CI: o.CI, Class: class, Reason: o.Reason, First: at, Last: at, Count: o.Times,
	}
}

func (s State) count(o Observation) State {
	s.Counts = slices.Clone(s.Counts)
	i := slices.IndexFunc(s.Counts, func(c Count) bool { return c.Source == o.Source && c.XID == o.XID })
	switch {
	case i >= 0:
		s.Counts[i].N += o.Times
	case o.Source == XID && len(s.Counts) >= MaxXIDs:
		s.Others += o.Times
	default:
		s.Counts = append(s.Counts, Count{Source: o.Source, XID: o.XID, N: o.Times})
	}
	return s
}

// stamp makes a time that JSON gives back as it was; years beyond its range are no time.
func stamp(t time.Time) time.Time {
	t = t.Round(0).UTC()
	if t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}
	}
	return t
}
