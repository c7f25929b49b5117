// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/health"
)

// HealthKind is what became of devices.
type HealthKind string

// Kinds of changes of health.
const (
	BecameUnhealthy HealthKind = "unhealthy"
	BecameHealthy   HealthKind = "healthy"
	XIDsNoted       HealthKind = "noted" // nothing became unhealthy
)

// HealthChange is worth telling once, however many reports led to it.
type HealthChange struct {
	Seq  uint64 // ascending, from 1 with each process
	GPU  string // "gpu-3"
	Kind HealthKind
	Text string // "gpu-3 3g.40gb@4: XID 94 on instance 2: needs a reset of the GPU"
	// Holders are who holds what the change is about: "namespace/name" of pods, "claim namespace/name".
	Holders []string
}

// maxJournal is how many changes a reader may lag behind.
const maxJournal = 64

// noteEvery spaces out what is told of applications' errors on one GPU.
const noteEvery = time.Minute

// journal is the last changes, and what waits to be told.
type journal struct {
	changes []HealthChange
	seq     uint64
	notes   map[string]note // by UUID
}

// note gathers applications' errors on a GPU.
type note struct {
	told time.Time
	xids map[uint64]uint64
	pods []string
}

func (j *journal) add(c HealthChange) {
	j.seq++
	c.Seq = j.seq
	j.changes = append(slices.Clone(j.changes[max(0, len(j.changes)+1-maxJournal):]), c) // views have the one before
}

// part is one device of a GPU: the GPU itself, or an instance.
type part struct {
	gi   int
	name string // "gpu-3", "gpu-3 3g.40gb@4"
}

func partsOf(g devices.GPU) []part {
	if !g.MIG.Mode.Current {
		return []part{{health.Whole, g.Name()}}
	}
	parts := []part{}
	for _, i := range g.MIG.Instances {
		parts = append(parts, part{i.GI, g.Name() + " " + i.Slot.String()})
	}
	if len(parts) == 0 {
		parts = append(parts, part{health.Whole, g.Name()})
	}
	return parts
}

// condition is how a GPU is at one visit.
type condition struct {
	health.State
	silent string // why it does not answer, although the driver does; "" = it does
}

func (c condition) unhealthy(gi int) bool {
	return c.silent != "" || c.Device(gi).Health == health.Unhealthy
}

// why is the cause of what a device is unhealthy for: what evidence must end comes first.
func (c condition) why(gi int) string {
	if v := c.Device(gi); v.Health == health.Unhealthy {
		return v.Reason
	}
	return c.silent
}

// enter compares the devices of a GPU before and after a visit.
func (j *journal) enter(g devices.GPU, before, after condition, changes []health.Change, holders map[int][]string, now time.Time) {
	fell, rose := []part{}, []part{}
	for _, p := range partsOf(g) {
		switch was, is := before.unhealthy(p.gi), after.unhealthy(p.gi); {
		case !was && is:
			fell = append(fell, p)
		case was && !is && after.Device(p.gi).Health == health.Healthy:
			rose = append(rose, p)
		}
	}
	worse := slices.ContainsFunc(changes, func(c health.Change) bool { return c.Kind == health.Escalated })
	if worse && len(fell) == 0 {
		fell = slices.DeleteFunc(partsOf(g), func(p part) bool { return !after.unhealthy(p.gi) })
	}
	if len(fell) > 0 {
		j.add(HealthChange{GPU: g.Name(), Kind: BecameUnhealthy, Holders: podsOn(fell, holders), Text: names(fell) + ": " + after.why(fell[0].gi)})
	}
	if len(rose) > 0 {
		by := cmp.Or(healedBy(changes), "it answers again")
		j.add(HealthChange{GPU: g.Name(), Kind: BecameHealthy, Holders: podsOn(rose, holders), Text: names(rose) + ": healthy again: " + by})
	}
	j.note(g, changes, holders, now)
}

func healedBy(changes []health.Change) string {
	texts := []string{}
	for _, c := range changes {
		if c.Kind == health.Healed {
			texts = append(texts, fmt.Sprintf("%s (%s)", c.Evidence, c.Fault))
		}
	}
	return strings.Join(slices.Compact(texts), "; ")
}

func names(parts []part) string {
	all := []string{}
	for _, p := range parts {
		all = append(all, p.name)
	}
	return strings.Join(all, ", ")
}

func podsOn(parts []part, holders map[int][]string) []string {
	pods := slices.Clone(holders[devices.NoInstance])
	for _, p := range parts {
		pods = append(pods, holders[p.gi]...)
	}
	slices.Sort(pods)
	return slices.Compact(pods)
}

// note tells of applications' errors at once when there were none for a while, and otherwise gathers them.
func (j *journal) note(g devices.GPU, changes []health.Change, holders map[int][]string, now time.Time) {
	n := j.notes[g.UUID]
	for _, c := range changes {
		if c.Kind != health.Noted || c.Fault.Source != health.XID {
			continue
		}
		if n.xids == nil {
			n.xids = map[uint64]uint64{}
		}
		n.xids[c.Fault.XID] += c.Fault.Count
		n.pods = append(n.pods, holders[c.Fault.GI]...)
		if c.Fault.GI != devices.NoInstance {
			n.pods = append(n.pods, holders[devices.NoInstance]...)
		}
	}
	slices.Sort(n.pods)
	n.pods = slices.Compact(n.pods)
	if len(n.xids) > 0 && now.Sub(n.told) >= noteEvery {
		j.add(HealthChange{GPU: g.Name(), Kind: XIDsNoted, Holders: n.pods, Text: g.Name() + ": " + n.String()})
		n = note{told: now}
	}
	if j.notes == nil {
		j.notes = map[string]note{}
	}
	j.notes[g.UUID] = n
}

// maxXIDsTold bounds a text.
const maxXIDsTold = 8

func (n note) String() string {
	texts := []string{}
	for _, xid := range slices.Sorted(maps.Keys(n.xids)) {
		text := fmt.Sprintf("XID %d", xid)
		if times := n.xids[xid]; times > 1 {
			text += fmt.Sprintf(" (%d times)", times)
		}
		texts = append(texts, text)
	}
	if more := len(texts) - maxXIDsTold; more > 0 {
		texts = append(texts[:maxXIDsTold], fmt.Sprintf("%d others", more))
	}
	return strings.Join(texts, ", ") + ": an application's error, the GPU goes on"
}
