// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package health

import "time"

// Health is how a device is.
type Health string

// Healths, from good to bad.
const (
	Healthy Health = "healthy"
	// ResetPending devices work; they take nothing new because a neighbour on their GPU needs more than itself to recover.
	ResetPending Health = "reset-pending"
	Unhealthy    Health = "unhealthy"
)

// Verdict is the health of one device, and so of all its shares.
type Verdict struct {
	Health Health
	Reason string    // empty: healthy
	Since  time.Time // when the fault that decides was first seen
}

// Device judges the GPU instance with that id of the driver, or with Whole the GPU, which spans its instances: a fault in any
// of them is the whole GPU's. A fault of an instance makes that instance unhealthy and the rest pending, whatever its class.
// Among faults that do the same to a device the most severe decides, then the oldest. An id that a new cut uses again takes
// the fault over, and the rest of the GPU is pending anyway.
func (s State) Device(gi int) Verdict {
	if f, ok := s.worst(func(f Fault) bool { return f.hits(gi) }); ok {
		return Verdict{Health: Unhealthy, Reason: f.String(), Since: f.First}
	}
	if f, ok := s.worst(func(Fault) bool { return true }); ok {
		return Verdict{Health: ResetPending, Reason: "reset pending: " + f.String(), Since: f.First}
	}
	return Verdict{Health: Healthy}
}

// Cause is the fault that decides over a device; the zero value is none.
func (s State) Cause(gi int) Fault {
	if f, ok := s.worst(func(f Fault) bool { return f.hits(gi) }); ok {
		return f
	}
	f, _ := s.worst(func(Fault) bool { return true })
	return f
}

func (s State) worst(among func(Fault) bool) (worst Fault, ok bool) {
	for _, f := range s.Faults {
		if among(f) && (!ok || worst.Class == Reset && f.Class != Reset) {
			worst, ok = f, true
		}
	}
	return worst, ok
}
