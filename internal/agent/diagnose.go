// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"errors"
	"slices"
	"time"

	"gpuslice/internal/state"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/health"
)

// patient is the health of one GPU: what is kept, and what this process saw.
type patient struct {
	state.Health
	read     bool          // it answered this process once
	signs    devices.Signs // of the last reading
	demanded bool          // the driver said that it needs a reset or more, after its last fault
	letGo    bool          // our hands were off it since the last reading, so that others could reset it
	reset    bool          // this agent reset it, after its last fault
	gone     bool          // the driver did not list it
	doubted  bool          // it is lost in one session of the driver only, so far
	silent   string        // why it does not answer, although the driver does
	failure  string        // why the agent's last reset of it failed
}

func (p patient) condition() condition { return condition{p.State, p.silent} }

// visit is everything that is told of one GPU at one moment.
type visit struct {
	gpu     devices.GPU
	boot    string
	load    string    // "" = not known
	reports []reports // older than the reading
	// access says that every GPU of the node is lost at once, which is this process's access to them rather than they.
	access   bool
	reported string // by others, in an annotation; "" = nothing
	cleared  string // the admin's word that all faults are over; "" = there is none
}

// diagnose takes in what happened, in its order: what came with a start, the admin's word, reports, the reading, what others say. It
// is pure.
func (p patient) diagnose(policy health.Policy, v visit, now time.Time) (patient, []health.Change) {
	d := diagnosis{patient: p, policy: policy, now: now}
	d.start(v)
	d.clear(v) // what is reported in the same moment is not over
	for _, r := range v.reports {
		d.report(r)
	}
	switch g := v.gpu; {
	case g.Released != "":
		d.letGo = true
		d.demanded = d.demanded || !d.read && demands(g.Signs.Action) // the reading that this process took before it let go
	case g.Fault == nil:
		d.reading(g.Signs)
	case g.Lost && !v.access && !d.covers(health.Unreachable, health.Reboot):
		d.observe(health.Observation{Source: health.Unreachable, Reason: "off the bus"})
	}
	if v.gpu.Released == "" {
		d.gone = errors.Is(v.gpu.Fault, devices.ErrGone)
	}
	if v.reported != "" && !d.covers(health.Reported, health.Reset) { // it stands as long as it is there
		d.observe(health.Observation{Source: health.Reported, Reason: v.reported})
	}
	return d.patient, d.changes
}

// diagnosis is a patient on the way through a visit.
type diagnosis struct {
	patient
	policy  health.Policy
	now     time.Time
	changes []health.Change
}

// observe tells a report of the GPU as a whole or of an instance.
func (d *diagnosis) observe(o health.Observation) {
	if o.Source != health.XID {
		o.GI, o.CI = health.Whole, health.Whole
	}
	before := d.State.Faults
	var changes []health.Change
	d.State, changes = d.State.Observe(d.policy, o, d.now)
	d.changes = append(d.changes, changes...)
	if !slices.Equal(before, d.State.Faults) { // whatever was seen before proves nothing of it
		d.demanded, d.letGo, d.reset = demands(o.Action), false, false
	}
}

func (d *diagnosis) heal(e health.Evidence) {
	var changes []health.Change
	d.State, changes = d.State.Heal(e)
	d.changes = append(d.changes, changes...)
}

// demands says that the driver wants more than to go on.
func demands(a health.RecoveryAction) bool {
	class, known := a.Class()
	return known && class >= health.Reset
}

// start tells of a boot, or of a load of the driver, since the last visit. A GPU that is listed again was given to the driver anew.
func (d *diagnosis) start(v visit) {
	known := d.BootID != ""
	switch {
	case known && d.BootID != v.boot:
		d.heal(health.Booted)
	case known && d.Load != "" && v.load != "" && d.Load != v.load, d.gone && v.gpu.Fault == nil && v.gpu.Released == "":
		d.heal(health.DriverLoaded)
	}
	if len(d.State.Faults) == 0 {
		d.failure = ""
	}
	if d.BootID = v.boot; v.load != "" {
		d.Load = v.load
	}
}

func (d *diagnosis) report(r reports) {
	switch r.Event {
	case devices.EventXID:
		d.observe(health.Observation{Source: health.XID, XID: r.XID, Action: r.Action, GI: r.GI, CI: r.CI, Times: r.times})
	case devices.EventRecoveryAction:
		d.observe(health.Observation{Source: health.Recovery, Action: r.Action, Times: r.times})
	case devices.EventGPUUnavailable:
		if r.Action == health.ActionAbsent {
			d.observe(health.Observation{Source: health.Unreachable, Reason: "the driver cannot use it"})
		} else {
			d.observe(health.Observation{Source: health.Recovery, Action: r.Action})
		}
	}
}

// reading takes in what a GPU that answers says: first what that ends, then what is new.
func (d *diagnosis) reading(s devices.Signs) {
	if s.Action == health.ActionNone && d.letGo && d.demanded {
		d.heal(health.ResetSeen) // it has taken its demand back while others could reset it
	}
	if s.Action == health.ActionNone || s.Action == health.ActionAbsent && d.reset {
		d.heal(health.ActionRead)
	}
	d.heal(health.Answered)
	d.overrule(s)
	d.demand(s)
	d.remap(s)
	d.count(s)
	d.signs, d.read, d.letGo = s, true, false
}

// demand takes in a recovery action that no fault stands for yet.
func (d *diagnosis) demand(s devices.Signs) {
	d.demanded = d.demanded || demands(s.Action)
	if !demands(s.Action) || s.Action == d.Overruled.Action {
		return
	}
	if class, _ := s.Action.Class(); !d.covers("", class) {
		d.observe(health.Observation{Source: health.Recovery, Action: s.Action})
	}
}

// remap takes in that rows could not be remapped: once, and again only after an evidence that did not help.
func (d *diagnosis) remap(s devices.Signs) {
	o := health.Observation{Source: health.RemapFailure, Action: s.Action}
	news := !d.signs.RemapFailed || d.policy.Class(o) >= health.Reset
	if s.RemapFailed && news && !d.Overruled.RemapFailed && !d.covers(health.RemapFailure, health.Reset) {
		d.observe(o)
	}
}

// count takes in what is only counted.
func (d *diagnosis) count(s devices.Signs) {
	before := d.signs
	for _, sign := range []struct {
		source health.Source
		is     bool
	}{
		{health.RemapPending, s.RemapPending && !before.RemapPending},
		{health.Uncorrected, s.Uncorrected > before.Uncorrected},
		{health.Throttle, d.read && (s.PowerLimited > before.PowerLimited || s.HeatLimited > before.HeatLimited)},
	} {
		if sign.is {
			d.observe(health.Observation{Source: sign.source}) // what the driver demands is no word on these
		}
	}
}

// overrule keeps what an admin spoke against as long as the GPU says it.
func (d *diagnosis) overrule(s devices.Signs) {
	if d.Overruled.Next {
		d.Overruled = state.Overruled{Action: s.Action, RemapFailed: s.RemapFailed}
	}
	if s.Action != d.Overruled.Action {
		d.Overruled.Action = health.ActionAbsent
	}
	d.Overruled.RemapFailed = d.Overruled.RemapFailed && s.RemapFailed
}

// covers says that a fault of the source, or with "" of any, stands already for which no evidence was seen.
func (d *diagnosis) covers(source health.Source, class health.Class) bool {
	return slices.ContainsFunc(d.State.Faults, func(f health.Fault) bool {
		return (source == "" || f.Source == source) && f.Class >= class && !f.ResetSeen && !f.Reloaded
	})
}

// clear follows the admin's word, once. What the GPU says at its next reading is what the word was said against.
func (d *diagnosis) clear(v visit) {
	if v.cleared != "" && v.cleared != d.Cleared {
		d.heal(health.Cleared)
		d.Overruled = state.Overruled{Next: true}
	}
	d.Cleared = v.cleared
}
