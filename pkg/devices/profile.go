// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices

import (
	"errors"
	"math"
	"slices"
	"strings"

	"gpuslice/pkg/mig"
)

// attributeOf is the suffix that nvidia-smi puts behind a profile's name, by enum of nvml.h (GPU_INSTANCE_PROFILE_*).
// REV2 profiles (more memory) carry none: they differ by size.
var attributeOf = map[int]string{
	7: "+me", 8: "+me",
	10: "+gfx", 11: "+gfx", 12: "+gfx", 17: "+gfx",
	13: "-me", 14: "-me",
	15: "+me.all", 16: "+me.all",
}

// profileName takes the driver's own name where it has one. Drivers without it get the name that nvidia-smi would print:
// the share of memory, rounded up to eighths, of the GPU's memory in whole GiB.
func profileName(p GIProfile, enum int, totalMiB uint64) string {
	if p.Name != "" {
		return strings.TrimPrefix(p.Name, "MIG ")
	}
	gb := int(math.Round(float64(p.MemoryMiB) / 1024))
	if totalMiB > 0 {
		eighths := math.Ceil(float64(p.MemoryMiB) / float64(totalMiB) * 8)
		gb = int(math.Round(eighths / 8 * math.Ceil(float64(totalMiB)/1024)))
	}
	return mig.FormatName(p.Slices, gb, attributeOf[enum])
}

// geometryOf asks for the profiles once in a session: while the MIG mode lasts, the driver promises, they stay.
func (h *Hardware) geometryOf(handle GPUHandle, g GPU, mode bool, known reading) (mig.Geometry, error) {
	if h.isOfNow(known, g.UUID) && known.MIG.Mode.Current == mode && known.IsMIGCapable() {
		return known.Geometry, nil
	}
	return geometry(h.driver, handle, g.MemoryMiB)
}

// geometry asks for every profile that nvml.h knows. A profile that one driver or board lacks, or describes oddly,
// is left out alone.
func geometry(d Partitioner, gpu GPUHandle, totalMiB uint64) (mig.Geometry, error) {
	offers := []mig.Offer{}
	for enum := range GIProfileEnums {
		p, err := d.GIProfile(gpu, enum)
		if errors.Is(err, ErrNotSupported) || errors.Is(err, ErrInvalidArgument) || errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return mig.Geometry{}, err
		}
		placements, err := d.GIPlacements(gpu, p.ID)
		if errors.Is(err, ErrNotSupported) || errors.Is(err, ErrInvalidArgument) || (err == nil && len(placements) == 0) {
			continue
		}
		if err != nil {
			return mig.Geometry{}, err
		}
		if o, ok := offerOf(p, enum, totalMiB, placements); ok {
			offers = append(offers, o)
		}
	}
	return mig.NewGeometry(offers)
}

// offerOf is false for a description that cannot be true, so that one odd row does not cost the GPU.
func offerOf(p GIProfile, enum int, totalMiB uint64, placements []Placement) (mig.Offer, bool) {
	o := mig.Offer{Profile: mig.Profile{
		ID:            p.ID,
		Name:          profileName(p, enum, totalMiB),
		ComputeSlices: p.Slices,
		MemorySlices:  placements[0].Size,
		MemoryMiB:     p.MemoryMiB,
		MaxInstances:  p.MaxInstances,
		Engines: mig.Engines{
			SMs: p.SMs, Copy: p.CopyEngines, Decoder: p.Decoders, Encoder: p.Encoders, JPEG: p.JPEGs, OFA: p.OFAs,
		},
	}}
	for _, at := range placements {
		if at.Size != o.Profile.MemorySlices {
			return mig.Offer{}, false
		}
		o.Starts = append(o.Starts, at.Start)
	}
	slices.Sort(o.Starts)
	_, err := mig.NewGeometry([]mig.Offer{o})
	return o, err == nil
}
