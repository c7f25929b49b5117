// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package health

import (
	"slices"
	"strings"
)

// Source is how a report came about.
type Source string

// Sources. All but XID concern the whole GPU.
const (
	XID          Source = "xid"
	Recovery     Source = "recovery-action" // the driver's event or a poll
	RemapFailure Source = "row-remap-failure"
	Unreachable  Source = "unreachable" // lost, or does not answer although the driver does
	Reported     Source = "reported"    // by others, in an annotation
	RemapPending Source = "row-remap-pending"
	Uncorrected  Source = "uncorrected-ecc"
	Throttle     Source = "throttle" // by heat or power
)

var sources = []Source{XID, Recovery, RemapFailure, Unreachable, Reported, RemapPending, Uncorrected, Throttle}

// Whole stands for the whole GPU where an instance id is asked for; every negative number does.
const Whole = -1

// maxReason is how many bytes of a reason are kept: others write it, and every verdict and Event carries it.
const maxReason = 256

// Observation is one report about a GPU. What lasts, such as throttling, is counted each time it is observed.
type Observation struct {
	Source Source
	XID    uint64         // with Source XID
	Action RecoveryAction // read with it
	GI, CI int            // driver's ids of the instance, or Whole; zero is an instance
	Reason string         // free text; empty: made from the rest
	Times  uint64         // how often it was reported; 0 is once
}

// normal returns the observation as it is kept: an unknown source is a report by others, ids without a GPU instance are none.
func (o Observation) normal() Observation {
	if !slices.Contains(sources, o.Source) {
		o.Source = Reported
	}
	if o.Source != XID {
		o.XID, o.GI = 0, Whole
	}
	if o.GI < 0 {
		o.GI, o.CI = Whole, Whole
	}
	o.CI = max(o.CI, Whole)
	o.Reason, o.Times = clip(o.Reason), max(o.Times, 1)
	return o
}

// recoveryXID announces that the driver's recovery action changed.
const recoveryXID = 154

// voice returns the recovery action itself for the XID that announces it: both are one fault.
func (o Observation) voice() Observation {
	if o.Source == XID && o.XID == recoveryXID && o.GI < 0 && o.Action > ActionNone {
		o.Source, o.XID = Recovery, 0
	}
	return o
}

// clip makes text that JSON keeps as it is.
func clip(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxReason)], "")
}
