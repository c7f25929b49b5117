// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package health

import "time"

// The pace of the agent's resets of one GPU: the first at once, the next a minute after it, then twice as late each time.
// Numbers are ours: a reset takes seconds, and a GPU that needs many is an admin's.
const (
	ResetBackoff    = time.Minute
	ResetBackoffMax = time.Hour
)

// Attempts are the agent's own resets of a GPU.
type Attempts struct {
	N    int       `json:"n,omitempty"` // in a row, across faults: one that returns after every reset slows them down too
	Last time.Time `json:"last,omitzero"`
}

// wait is how long after the last attempt the next may come.
func (a Attempts) wait() time.Duration {
	if a.N <= 0 {
		return 0
	}
	return min(ResetBackoff<<min(a.N-1, 10), ResetBackoffMax)
}

// due says whether the wait is over; a clock that went back ends it, or a node would wait for years.
func (a Attempts) due(now time.Time) bool {
	passed := stamp(now).Sub(a.Last)
	return passed < 0 || passed >= a.wait()
}

// WantsReset says whether the agent should reset the GPU once nobody uses it: a fault needs it that saw no reset since it last
// happened, no fault needs more than that, and earlier attempts are long enough ago. Whether it may is the configuration's.
func (s State) WantsReset(now time.Time) bool {
	wanted := false
	for _, f := range s.Faults {
		if f.Class != Reset {
			return false
		}
		wanted = wanted || !f.ResetSeen
	}
	return wanted && s.Resets.due(now)
}

// ResetTried takes in that the agent tried to reset the GPU; ok is that it was reset, which heals nothing before recovery
// action none is read.
func (s State) ResetTried(now time.Time, ok bool) State {
	at := stamp(now)
	if at.Sub(s.Resets.Last) >= 2*ResetBackoffMax { // what was long ago is another story
		s.Resets.N = 0
	}
	s.Resets = Attempts{N: max(s.Resets.N, 0) + 1, Last: at}
	if ok {
		s, _ = s.Heal(ResetSeen)
	}
	return s
}
