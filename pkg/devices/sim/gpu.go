// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"cmp"
	"slices"

	"gpuslice/pkg/devices"
)

// resetKind is what a reset of a GPU does, which depends on who owns the machine.
type resetKind int

const (
	resetWorks       resetKind = iota
	resetUnsupported           // refused, as in many virtual machines
	resetIgnored               // answers success and does nothing
)

// traits are the properties of one GPU that differ from board to board.
type traits struct {
	swapped     bool // which half lacks a compute slice
	modeResets  bool // SetMIGMode itself resets the GPU where a reset is needed
	renumbers   bool // a reset gives the GPU another minor number
	noEvents    bool
	fixedMinor  bool
	resetAnswer resetKind
	reservedMiB uint64   // of the memory, by the driver
	unsupported []string // calls that answer ErrNotSupported
}

// gpu is a physical GPU. All fields are guarded by the machine's lock.
type gpu struct {
	traits
	number      int // its name in the controls: the order of the machine file, never reused
	model       model
	uuid, busID string
	subsystem   uint32 // PCI ids of the board's vendor, as in pciID; 0 = none
	minor, numa int
	persistence bool
	timeSlice   int
	lost        bool
	removed     bool
	mig         bool
	pending     bool
	gis         []*gpuInstance // by id
	processes   []Process
	limits      []memoryLimit
	signs       map[int]uint64 // what it says of its health, by field; the rest is zero
}

// gpuInstance is a live GPU instance; a destroyed one is no longer in its GPU's list.
type gpuInstance struct {
	gpu *gpu
	id  int
	row row
	at  devices.Placement
	cis []*computeInstance // by id
}

// computeInstance is a live compute instance, and with its GPU instance a MIG device.
type computeInstance struct {
	gi   *gpuInstance
	id   int
	row  ciRow
	span devices.Placement
	uuid string
}

// insertGI makes a GPU instance without a legality check.
func (g *gpu) insertGI(r row, at devices.Placement) *gpuInstance {
	gi := &gpuInstance{gpu: g, id: instanceID(g.model, at, g.swapped), row: r, at: at}
	g.gis = append(g.gis, gi)
	slices.SortFunc(g.gis, func(a, b *gpuInstance) int { return cmp.Compare(a.id, b.id) })
	return gi
}

func (gi *gpuInstance) insertCI(c ciRow, span devices.Placement, uuid func(gi, ci int) string) *computeInstance {
	id := freeID(gi.cis)
	ci := &computeInstance{gi: gi, id: id, row: c, span: span, uuid: uuid(gi.id, id)}
	gi.cis = append(gi.cis, ci)
	slices.SortFunc(gi.cis, func(a, b *computeInstance) int { return cmp.Compare(a.id, b.id) })
	return ci
}

// migDevices lists the MIG devices in the order of their index: the rank of (GI id, CI id).
func (g *gpu) migDevices() []*computeInstance {
	var all []*computeInstance
	for _, gi := range g.gis {
		all = append(all, gi.cis...)
	}
	return all
}

func (g *gpu) gone() bool { return g.lost || g.removed }

// runs says whether a process runs on the given GPU instance and compute instance; NoInstance asks for the whole.
func (g *gpu) runs(gi, ci int) bool {
	return slices.ContainsFunc(g.processes, func(p Process) bool {
		return (gi == devices.NoInstance || p.GI == gi) && (ci == devices.NoInstance || p.CI == ci)
	})
}

// cut removes every instance and what runs on it.
func (g *gpu) cut() {
	g.gis, g.processes = nil, nil
}
