// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"slices"

	"gpuslice/pkg/devices"
)

// fits says why a GPU instance cannot be created beside the live ones: ErrInvalidArgument for a placement that the profile
// does not have, ErrInsufficientResources where memory slices, compute slices, engines or the profile's count are used up.
func fits(m model, live []*gpuInstance, r row, at devices.Placement) error {
	if !slices.Contains(r.placements, at) {
		return devices.ErrInvalidArgument
	}
	count, used := 1, r.GIProfile
	for _, gi := range live {
		if overlap(gi.at, at) {
			return devices.ErrInsufficientResources
		}
		if gi.row.ID == r.ID {
			count++
		}
		used = add(used, gi.row.GIProfile)
	}
	if count > r.MaxInstances || exceeds(used, m) {
		return devices.ErrInsufficientResources
	}
	return nil
}

func overlap(a, b devices.Placement) bool {
	return a.Start < b.Start+b.Size && b.Start < a.Start+a.Size
}

// add sums what the GPU shares out beside memory.
func add(a, b devices.GIProfile) devices.GIProfile {
	a.Slices += b.Slices
	a.Decoders += b.Decoders
	a.Encoders += b.Encoders
	a.JPEGs += b.JPEGs
	a.OFAs += b.OFAs
	return a
}

func exceeds(used devices.GIProfile, m model) bool {
	all := m.full()
	return used.Slices > m.computeSlices || used.Decoders > all.Decoders || used.Encoders > all.Encoders ||
		used.JPEGs > all.JPEGs || used.OFAs > all.OFAs
}

// freeSpan is where the driver puts a compute instance: the first of the profile's spans that is free.
func freeSpan(live []*computeInstance, c ciRow) (devices.Placement, error) {
	span, ok := find(c.spans, func(span devices.Placement) bool {
		return !slices.ContainsFunc(live, func(ci *computeInstance) bool { return overlap(ci.span, span) })
	})
	if !ok {
		return devices.Placement{}, devices.ErrInsufficientResources
	}
	return span, nil
}

// freeID is the lowest id that no live compute instance has.
func freeID(live []*computeInstance) int {
	for id := 0; ; id++ {
		if !slices.ContainsFunc(live, func(ci *computeInstance) bool { return ci.id == id }) {
			return id
		}
	}
}
