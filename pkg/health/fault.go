// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package health

import (
	"fmt"
	"time"
)

// Fault is what keeps devices of a GPU unhealthy.
type Fault struct {
	Source Source `json:"source"`
	XID    uint64 `json:"xid,omitempty"`
	GI     int    `json:"gi"` // Whole: all of the GPU
	CI     int    `json:"ci"`
	// Class only ever rises. Faults whose class is lost or none need a reboot.
	Class  Class     `json:"class"`
	Reason string    `json:"reason,omitempty"`
	First  time.Time `json:"first,omitzero"`
	Last   time.Time `json:"last,omitzero"`
	Count  uint64    `json:"count"`
	// ResetSeen and Reloaded say what was seen since it last happened: half of an evidence.
	ResetSeen bool `json:"resetSeen,omitempty"` // a reset of the GPU
	Reloaded  bool `json:"reloaded,omitempty"`  // a boot or a driver load
}

// String says what happened, where, and what it needs.
func (f Fault) String() string {
	what := string(f.Source)
	if f.Source == XID {
		what = fmt.Sprintf("XID %d", f.XID)
	}
	if f.GI >= 0 {
		what += fmt.Sprintf(" on instance %d", f.GI)
	}
	if f.Reason != "" {
		what += " (" + f.Reason + ")"
	}
	if f.Class == Reset {
		return what + ": needs a reset of the GPU"
	}
	return what + ": needs a reboot of the node or a reload of the driver"
}

// same says whether an observation is the fault once more.
func (f Fault) same(o Observation) bool {
	return f.Source == o.Source && f.XID == o.XID && f.GI == o.GI && f.CI == o.CI
}

// again returns the fault after it happened once more; an evidence from before proves nothing any more.
func (f Fault) again(class Class, o Observation, at time.Time) Fault {
	if class > f.Class {
		f.Class, f.Reason = class, o.Reason
	}
	f.Last, f.Count, f.ResetSeen, f.Reloaded = at, f.Count+o.Times, false, false
	return f
}

// hits says whether the fault makes an instance, or the whole GPU, unhealthy.
func (f Fault) hits(gi int) bool { return gi < 0 || f.GI < 0 || f.GI == gi }
