// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devicestest

import (
	"errors"
	"fmt"
	"slices"

	"gpuslice/pkg/devices"
)

var instanceLines = []line{
	{"a placement that the profile lacks is invalid", illegalPlacement},
	{"overlap is refused", overlapRefused},
	{"no more instances of a profile than its maximum", countRefused},
	{"compute slices of an instance run out", computeRunsOut},
	{"a GPU instance with a compute instance stays", filledGIStays},
	{"ids follow the placement, not the order", idsFollowPlacement},
	{"the MIG index is a rank and shifts", indexIsRank},
	{"MIG devices are the instances that were made", madeIsListed},
	{"handles end with what they name", handlesEnd},
}

func illegalPlacement(b *bench) error {
	t, err := b.cut()
	if err != nil {
		return err
	}
	p, err := t.choose("of two memory slices", func(p profile) bool { return p.placements[0].Size == 2 })
	if err != nil {
		return err
	}
	_, odd := t.CreateGI(t.gpu, p.ID, devices.Placement{Start: p.placements[0].Start + 1, Size: 2})
	_, far := t.CreateGI(t.gpu, p.ID, devices.Placement{Start: 1000, Size: 2})
	_, size := t.CreateGI(t.gpu, p.ID, devices.Placement{Start: p.placements[0].Start, Size: 1})
	_, id := t.CreateGI(t.gpu, 9999, p.placements[0])
	return errors.Join(want("CreateGI between placements", odd, devices.ErrInvalidArgument),
		want("CreateGI outside", far, devices.ErrInvalidArgument), want("CreateGI of another size", size, devices.ErrInvalidArgument),
		want("CreateGI of no profile", id, devices.ErrInvalidArgument))
}

func overlapRefused(b *bench) error {
	t, err := b.cut()
	if err != nil {
		return err
	}
	p, err := t.small()
	if err != nil {
		return err
	}
	at := p.placements[0]
	covers := func(q profile) bool {
		return q.ID != p.ID && q.Slices > p.Slices &&
			slices.ContainsFunc(q.placements, func(o devices.Placement) bool { return o.Start <= at.Start && at.Start+at.Size <= o.Start+o.Size })
	}
	q, err := t.choose("that covers another", covers)
	if err != nil {
		return err
	}
	if _, err := t.create(p, at); err != nil {
		return err
	}
	_, same := t.CreateGI(t.gpu, p.ID, at)
	_, over := t.CreateGI(t.gpu, q.ID, q.placements[0])
	return errors.Join(want("CreateGI at a taken placement", same, devices.ErrInsufficientResources),
		want("CreateGI over an instance", over, devices.ErrInsufficientResources))
}

func countRefused(b *bench) error {
	t, err := b.cut()
	if err != nil {
		return err
	}
	p, err := t.choose("with one instance and several placements", func(p profile) bool { return p.MaxInstances == 1 && len(p.placements) > 1 })
	if err != nil {
		return err
	}
	if _, err := t.create(p, p.placements[0]); err != nil {
		return err
	}
	_, err = t.CreateGI(t.gpu, p.ID, p.placements[1])
	return want("CreateGI beyond the maximum", err, devices.ErrInsufficientResources)
}

func computeRunsOut(b *bench) error {
	t, err := b.cut()
	if err != nil {
		return err
	}
	p, err := t.choose("of two compute slices", func(p profile) bool { return p.Slices == 2 })
	if err != nil {
		return err
	}
	gi, err := t.create(p, p.placements[0])
	if err != nil {
		return err
	}
	whole, err := t.filling(gi, 2)
	if err != nil {
		return err
	}
	half, err := t.filling(gi, 1)
	if err != nil {
		return err
	}
	_, first := t.CreateCI(gi, half.ID)
	_, tooBig := t.CreateCI(gi, whole.ID)
	_, second := t.CreateCI(gi, half.ID)
	_, third := t.CreateCI(gi, half.ID)
	return errors.Join(first, want("CreateCI of all beside a half", tooBig, devices.ErrInsufficientResources),
		second, want("CreateCI of a third half", third, devices.ErrInsufficientResources))
}

func filledGIStays(b *bench) error {
	t, err := b.cut()
	if err != nil {
		return err
	}
	made, err := t.carveSmall()
	if err != nil {
		return err
	}
	refused := want("DestroyGI with a compute instance", t.DestroyGI(made.gi), devices.ErrInUse)
	_, alive := t.CIInfo(made.ci)
	return errors.Join(refused, alive, t.DestroyCI(made.ci), t.DestroyGI(made.gi))
}

func idsFollowPlacement(b *bench) error {
	t, err := b.cut()
	if err != nil {
		return err
	}
	p, err := t.small()
	if err != nil {
		return err
	}
	forward, err := t.idsOf(p, p.placements[0], p.placements[1])
	if err != nil {
		return err
	}
	backward, err := t.idsOf(p, p.placements[1], p.placements[0])
	if err != nil {
		return err
	}
	slices.Reverse(backward)
	if !slices.Equal(forward, backward) || forward[0] == forward[1] {
		return fmt.Errorf("ids of two placements are %v, and %v when made the other way round", forward, backward)
	}
	return nil
}

// idsOf makes instances in order, reads their ids, and destroys them.
func (t target) idsOf(p profile, at ...devices.Placement) ([]int, error) {
	ids := make([]int, len(at))
	handles := make([]devices.GIHandle, len(at))
	for i := range at {
		gi, err := t.create(p, at[i])
		if err != nil {
			return nil, err
		}
		info, err := t.GIInfo(gi)
		if err != nil {
			return nil, fmt.Errorf("GIInfo: %w", err)
		}
		handles[i], ids[i] = gi, info.ID
	}
	for _, gi := range handles {
		if err := t.DestroyGI(gi); err != nil {
			return nil, fmt.Errorf("DestroyGI: %w", err)
		}
	}
	return ids, nil
}

func indexIsRank(b *bench) error {
	t, err := b.cut()
	if err != nil {
		return err
	}
	p, err := t.small()
	if err != nil {
		return err
	}
	made := make([]instance, 2)
	for i := range made {
		if made[i], err = t.carve(p, p.placements[i]); err != nil {
			return err
		}
	}
	slices.SortFunc(made, func(a, b instance) int { return a.info.ID - b.info.ID })
	both, err := t.migDevices()
	if err != nil {
		return err
	}
	if err := errors.Join(t.DestroyCI(made[0].ci), t.DestroyGI(made[0].gi)); err != nil {
		return fmt.Errorf("destroy: %w", err)
	}
	h, err := t.MIGDevice(t.gpu, 0)
	if err != nil {
		return fmt.Errorf("MIGDevice 0 after a destroy: %w", err)
	}
	gi, _, err := t.MIGDeviceIDs(h)
	_, past := t.MIGDevice(t.gpu, 1)
	wanted := [][2]int{{made[0].info.ID, made[0].ciInfo.ID}, {made[1].info.ID, made[1].ciInfo.ID}}
	if !slices.Equal(both, wanted) {
		err = errors.Join(err, fmt.Errorf("MIG devices are %v; want %v", both, wanted))
	}
	return errors.Join(err, differ("GI of MIG device 0", gi, made[1].info.ID), want("MIGDevice 1", past, devices.ErrNotFound))
}

func madeIsListed(b *bench) error {
	t, err := b.cut()
	if err != nil {
		return err
	}
	made, err := t.carveSmall()
	if err != nil {
		return err
	}
	devs, err := t.migDevices()
	if err != nil {
		return err
	}
	listed, err := t.computeInstances()
	wanted := [][2]int{{made.info.ID, made.ciInfo.ID}}
	if !slices.Equal(devs, wanted) || !slices.Equal(listed, wanted) {
		err = errors.Join(err, fmt.Errorf("MIG devices are %v, instances are %v; want %v", devs, listed, wanted))
	}
	return errors.Join(err, differ("profile", made.info.ProfileID, made.profile.ID),
		differ("placement", made.info.Placement, made.profile.placements[0]))
}

func handlesEnd(b *bench) error {
	t, err := b.cut()
	if err != nil {
		return err
	}
	made, err := t.carveSmall()
	if err != nil {
		return err
	}
	mig, err := t.MIGDevice(t.gpu, 0)
	if err != nil {
		return fmt.Errorf("MIGDevice: %w", err)
	}
	gone := []devices.Code{devices.ErrNotFound, devices.ErrInvalidArgument}
	if err := t.DestroyCI(made.ci); err != nil {
		return fmt.Errorf("DestroyCI: %w", err)
	}
	_, ci := t.CIInfo(made.ci)
	_, _, ids := t.MIGDeviceIDs(mig)
	ciGone := errors.Join(want("CIInfo of a destroyed instance", ci, gone...), want("MIGDeviceIDs of a destroyed device", ids, gone...))
	if err := errors.Join(ciGone, t.DestroyGI(made.gi)); err != nil {
		return err
	}
	if _, err := t.carve(made.profile, made.profile.placements[0]); err != nil {
		return err
	}
	_, gi := t.GIInfo(made.gi)
	return errors.Join(want("GIInfo of a destroyed instance", gi, gone...), want("DestroyGI twice", t.DestroyGI(made.gi), gone...))
}
