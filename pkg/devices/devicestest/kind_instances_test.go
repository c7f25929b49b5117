// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devicestest

import (
	"errors"

	"gpuslice/pkg/devices"
)

// phantoms accepts instances that do not fit: those that overlap, or those of a profile that is used up.
type phantoms struct {
	kind
	overlapping bool
}

func newPhantoms(overlapping bool) func(simNode, kind) devices.Driver {
	return func(_ simNode, k kind) devices.Driver { return phantoms{kind: k, overlapping: overlapping} }
}

func (p phantoms) CreateGI(gpu devices.GPUHandle, profileID int, at devices.Placement) (devices.GIHandle, error) {
	gi, err := p.Driver.CreateGI(gpu, profileID, at)
	if errors.Is(err, devices.ErrInsufficientResources) && p.overlaps(gpu, at) == p.overlapping {
		return 1 << 60, nil
	}
	return gi, err
}

// overlaps says whether a live instance lies in the span.
func (p phantoms) overlaps(gpu devices.GPUHandle, at devices.Placement) bool {
	for _, gi := range allGIs(p.Driver, gpu) {
		info, err := p.GIInfo(gi)
		if err == nil && info.Placement.Start < at.Start+at.Size && at.Start < info.Placement.Start+info.Placement.Size {
			return true
		}
	}
	return false
}

func allGIs(d devices.Driver, gpu devices.GPUHandle) []devices.GIHandle {
	var all []devices.GIHandle
	for enum := range devices.GIProfileEnums {
		if p, err := d.GIProfile(gpu, enum); err == nil {
			gis, _ := d.GIs(gpu, p.ID)
			all = append(all, gis...)
		}
	}
	return all
}

func allCIs(d devices.Driver, gi devices.GIHandle) []devices.CIHandle {
	var all []devices.CIHandle
	for enum := range devices.CIProfileEnums {
		if p, err := d.CIProfile(gi, enum); err == nil {
			cis, _ := d.CIs(gi, p.ID)
			all = append(all, cis...)
		}
	}
	return all
}

// giBreaker destroys compute instances that are in the way of a destroy.
type giBreaker struct{ kind }

func newGIBreaker(_ simNode, k kind) devices.Driver { return giBreaker{k} }

func (g giBreaker) DestroyGI(gi devices.GIHandle) error {
	err := g.Driver.DestroyGI(gi)
	if !errors.Is(err, devices.ErrInUse) {
		return err
	}
	for _, ci := range allCIs(g.Driver, gi) {
		if err := g.DestroyCI(ci); err != nil {
			return nil // kind to the last
		}
	}
	return g.Driver.DestroyGI(gi)
}

// ciBreaker stops processes that are in the way of a destroy.
type ciBreaker struct {
	kind
	node simNode
}

func newCIBreaker(n simNode, k kind) devices.Driver { return ciBreaker{kind: k, node: n} }

func (c ciBreaker) DestroyCI(ci devices.CIHandle) error {
	err := c.Driver.DestroyCI(ci)
	if !errors.Is(err, devices.ErrInUse) {
		return err
	}
	for _, g := range c.node.machine.GPUs() {
		if err := c.node.machine.StopProcess(g.Number, 4711); err != nil {
			return err
		}
	}
	return c.Driver.DestroyCI(ci)
}

// modeBreaker destroys instances that are in the way of the mode.
type modeBreaker struct{ kind }

func newModeBreaker(_ simNode, k kind) devices.Driver { return modeBreaker{k} }

func (m modeBreaker) SetMIGMode(gpu devices.GPUHandle, on bool) (activation, err error) {
	activation, err = m.Driver.SetMIGMode(gpu, on)
	if on || !errors.Is(activation, devices.ErrInUse) {
		return activation, err
	}
	for _, gi := range allGIs(m.Driver, gpu) {
		for _, ci := range allCIs(m.Driver, gi) {
			_ = m.DestroyCI(ci)
		}
		_ = m.DestroyGI(gi)
	}
	return m.Driver.SetMIGMode(gpu, false)
}

// counter numbers GPU instances as they are first seen.
type counter struct {
	kind
	ids map[devices.GIHandle]int
}

func newCounter(_ simNode, k kind) devices.Driver {
	return counter{kind: k, ids: map[devices.GIHandle]int{}}
}

func (c counter) GIInfo(gi devices.GIHandle) (devices.GIInfo, error) {
	info, err := c.Driver.GIInfo(gi)
	if err != nil {
		return info, err
	}
	if _, ok := c.ids[gi]; !ok {
		c.ids[gi] = len(c.ids) + 1
	}
	info.ID = c.ids[gi]
	return info, nil
}

// MIGDeviceIDs looks the instance up by its real id, so that only the numbering is kind.
func (c counter) MIGDeviceIDs(mig devices.GPUHandle) (gi, ci int, err error) {
	gi, ci, err = c.Driver.MIGDeviceIDs(mig)
	for handle, id := range c.ids {
		if info, infoErr := c.Driver.GIInfo(handle); infoErr == nil && info.ID == gi {
			return id, ci, err
		}
	}
	return gi, ci, err
}

// hoarder answers from memory when an instance is gone.
type hoarder struct {
	kind
	seen map[devices.GIHandle]devices.GIInfo
}

func newHoarder(_ simNode, k kind) devices.Driver {
	return hoarder{kind: k, seen: map[devices.GIHandle]devices.GIInfo{}}
}

func (h hoarder) GIInfo(gi devices.GIHandle) (devices.GIInfo, error) {
	info, err := h.Driver.GIInfo(gi)
	if err != nil {
		if old, ok := h.seen[gi]; ok {
			return old, nil
		}
		return info, err
	}
	h.seen[gi] = info
	return info, nil
}
