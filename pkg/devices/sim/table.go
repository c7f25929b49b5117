// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"gpuslice/pkg/devices"
)

// model makes the table of a product that the machine file describes.
func (f modelFile) model(key string) (model, error) {
	m := model{
		key: key, name: f.Name, architecture: f.Architecture, brand: f.Brand, pciID: f.PCIDeviceID,
		memoryMiB: f.MemoryMiB, sms: f.SMs, memorySlices: f.MemorySlices, computeSlices: f.ComputeSlices,
		modeNeedsReset: f.NeedsReset, modeSurvivesReboot: f.SurvivesReboot, nvlinks: f.NVLinks,
		noMemory: f.NoMemory, integrated: f.Integrated, virtual: f.Virtual,
	}
	if f.NVLinks < 0 || f.NVLinks > maxNVLinks {
		return model{}, fmt.Errorf("model %s: nvlinks is %d; valid: 0 to %d", key, f.NVLinks, maxNVLinks)
	}
	if f.ComputeCapability != "" {
		if _, err := fmt.Sscanf(f.ComputeCapability, "%d.%d", &m.ccMajor, &m.ccMinor); err != nil {
			return model{}, fmt.Errorf("model %s: computeCapability %q is not of the form 9.0", key, f.ComputeCapability)
		}
	}
	for _, p := range f.Profiles {
		r, err := p.row(f.MemorySlices)
		if err != nil {
			return model{}, fmt.Errorf("model %s: profile %q: %w", key, p.Name, err)
		}
		m.rows = append(m.rows, r)
	}
	if m.canMIG() && m.full().MaxInstances == 0 {
		return model{}, fmt.Errorf("model %s: no profile takes all %d memory slices", key, f.MemorySlices)
	}
	return m, nil
}

// maxSlices bounds the arithmetic on slices; no GPU has more of them.
const maxSlices = 64

func (p profileFile) row(memorySlices int) (row, error) {
	if err := p.check(); err != nil {
		return row{}, err
	}
	if err := p.checkPlacements(memorySlices); err != nil {
		return row{}, err
	}
	return row{
		GIProfile: devices.GIProfile{
			ID: p.ID, Name: p.Name, Slices: p.Slices, MaxInstances: p.MaxInstances, SMs: p.SMs, CopyEngines: p.CopyEngines,
			Decoders: p.Decoders, Encoders: p.Encoders, JPEGs: p.JPEGs, OFAs: p.OFAs, MemoryMiB: p.MemoryMiB, Graphics: p.Graphics,
		},
		enum: p.Enum, placements: at(p.Size, p.Starts...), cis: divide(p.Slices),
	}, nil
}

func (p profileFile) check() error {
	switch {
	case p.Name == "" || p.MaxInstances < 1:
		return errors.New("name and maxInstances are needed")
	case !slices.Contains(slices.Collect(maps.Keys(computeEnums)), p.Slices):
		return fmt.Errorf("slices is %d; valid: %v", p.Slices, slices.Sorted(maps.Keys(computeEnums)))
	case p.Enum < 0 || p.Enum >= devices.GIProfileEnums:
		return fmt.Errorf("enum is %d; valid: 0 to %d", p.Enum, devices.GIProfileEnums-1)
	}
	return nil
}

// checkPlacements refuses what has no place in a tree of halves.
func (p profileFile) checkPlacements(memorySlices int) error {
	switch {
	case memorySlices < 1 || memorySlices > maxSlices:
		return fmt.Errorf("memorySlices is %d; valid: 1 to %d", memorySlices, maxSlices)
	case len(p.Starts) == 0:
		return errors.New("starts are needed")
	case p.Size < 1 || memorySlices%p.Size != 0 || bits.OnesCount(uint(memorySlices/p.Size)) != 1:
		return fmt.Errorf("size %d is not a half, quarter, ... of %d memory slices", p.Size, memorySlices)
	}
	for _, start := range p.Starts {
		if start < 0 || start%p.Size != 0 || start+p.Size > memorySlices {
			return fmt.Errorf("start %d with size %d is outside of %d memory slices or not aligned", start, p.Size, memorySlices)
		}
	}
	return nil
}

// computeEnums are the compute-instance profiles of nvml.h by their slices; where ids are known they equal the enums.
var computeEnums = map[int]int{1: 0, 2: 1, 3: 2, 4: 3, 6: 6, 7: 4, 8: 5}

// divide is the compute instances of a GPU instance: each size at every multiple of its own aligned span that fits.
func divide(compute int) []ciRow {
	var rows []ciRow
	for size := 1; size <= compute; size++ {
		enum, ok := computeEnums[size]
		if !ok {
			continue
		}
		aligned := 1 << bits.Len(uint(size-1))
		var starts []int
		for start := 0; start+size <= compute; start += aligned {
			starts = append(starts, start)
		}
		profile := devices.CIProfile{ID: enum, Slices: size, MaxInstances: len(starts)}
		rows = append(rows, ciRow{CIProfile: profile, enum: enum, spans: at(size, starts...)})
	}
	return rows
}

// override applies a machine file's other names and sizes to a GPU's own copy of the table.
func (m model) override(parts map[int]profilePart) (model, error) {
	m.rows = slices.Clone(m.rows)
	for id, part := range parts {
		i := slices.IndexFunc(m.rows, func(r row) bool { return r.ID == id })
		if i < 0 {
			return model{}, fmt.Errorf("profiles: %s has no profile id %d; valid ids: %v", m.key, id, m.rowIDs())
		}
		if part.Name != "" {
			m.rows[i].Name = part.Name
		}
		if part.MemoryMiB != 0 {
			m.rows[i].MemoryMiB = part.MemoryMiB
		}
	}
	return m, nil
}

func (m model) rowIDs() []int {
	ids := make([]int, len(m.rows))
	for i, r := range m.rows {
		ids[i] = r.ID
	}
	slices.Sort(ids)
	return ids
}
