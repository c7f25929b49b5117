// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devicestest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gpuslice/pkg/devices"
)

func migDevicesAreInstances(b *bench) error {
	targets, err := b.all(Client{Name: "first"})
	if err != nil {
		return err
	}
	var errs []error
	seen := 0
	for _, t := range targets {
		if on, _, err := t.MIGMode(t.gpu); err != nil || !on {
			continue
		}
		listed, err := t.computeInstances()
		errs = append(errs, err)
		devs, err := t.migDevices()
		errs = append(errs, err)
		if !slices.Equal(devs, listed) {
			errs = append(errs, fmt.Errorf("MIG devices are (GI, CI) %v; instances are %v", devs, listed))
		}
		seen += len(devs)
	}
	if seen == 0 && len(errs) == 0 {
		return skip("no GPU with instances")
	}
	return errors.Join(errs...)
}

// computeInstances lists (GI id, CI id) from the instances, sorted.
func (t target) computeInstances() ([][2]int, error) {
	var ids [][2]int
	all, err := t.profiles()
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		gis, err := t.GIs(t.gpu, p.ID)
		if err != nil {
			return nil, fmt.Errorf("GIs %d: %w", p.ID, err)
		}
		for _, gi := range gis {
			info, err := t.GIInfo(gi)
			if err != nil {
				return nil, fmt.Errorf("GIInfo: %w", err)
			}
			if info.ProfileID != p.ID || !slices.Contains(p.placements, info.Placement) {
				return nil, fmt.Errorf("GI %+v is listed under profile %d with placements %v", info, p.ID, p.placements)
			}
			cis, err := t.ciIDs(gi)
			if err != nil {
				return nil, err
			}
			for _, ci := range cis {
				ids = append(ids, [2]int{info.ID, ci})
			}
		}
	}
	slices.SortFunc(ids, func(a, b [2]int) int { return slices.Compare(a[:], b[:]) })
	return ids, nil
}

func (t target) ciIDs(gi devices.GIHandle) ([]int, error) {
	var ids []int
	for enum := range devices.CIProfileEnums {
		p, err := t.CIProfile(gi, enum)
		if err != nil {
			continue
		}
		cis, err := t.CIs(gi, p.ID)
		if err != nil {
			return nil, fmt.Errorf("CIs %d: %w", p.ID, err)
		}
		for _, ci := range cis {
			info, err := t.CIInfo(ci)
			if err != nil {
				return nil, fmt.Errorf("CIInfo: %w", err)
			}
			ids = append(ids, info.ID)
		}
	}
	return ids, nil
}

// migDevices lists (GI id, CI id) by MIG index, and checks that UUIDs lead back.
func (t target) migDevices() ([][2]int, error) {
	limit, err := t.MaxMIGDevices(t.gpu)
	if err != nil {
		return nil, fmt.Errorf("MaxMIGDevices: %w", err)
	}
	var ids [][2]int
	for i := range limit {
		h, err := t.MIGDevice(t.gpu, i)
		if errors.Is(err, devices.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("MIGDevice %d: %w", i, err)
		}
		gi, ci, err := t.MIGDeviceIDs(h)
		if err != nil {
			return nil, fmt.Errorf("MIGDeviceIDs of %d: %w", i, err)
		}
		uuid, err := t.UUID(h)
		if err != nil {
			return nil, fmt.Errorf("UUID of MIG device %d: %w", i, err)
		}
		if err := t.leadsTo(uuid, gi, ci); err != nil {
			return nil, err
		}
		ids = append(ids, [2]int{gi, ci})
	}
	return ids, nil
}

// leadsTo checks that a MIG UUID leads to the instance that has it.
func (t target) leadsTo(uuid string, gi, ci int) error {
	if !strings.HasPrefix(uuid, "MIG-") {
		return fmt.Errorf("UUID %q of a MIG device does not begin with MIG-", uuid)
	}
	h, err := t.GPUByUUID(uuid)
	if err != nil {
		return fmt.Errorf("GPUByUUID %s: %w", uuid, err)
	}
	gotGI, gotCI, err := t.MIGDeviceIDs(h)
	return errors.Join(err, differ("instance of "+uuid, [2]int{gotGI, gotCI}, [2]int{gi, ci}))
}
