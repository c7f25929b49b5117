// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"fmt"
	"slices"

	"gpuslice/pkg/devices"
)

// AddGPU plugs a GPU in and returns its number; busID "" is behind the others. Open sessions do not see it; for later ones
// the indexes behind it move down.
func (m *Machine) AddGPU(modelKey, busID string) (number int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mod, err := findModel(m.models, modelKey)
	if err != nil {
		return 0, err
	}
	if busID == "" {
		busID = nextBusID(nil, m.lastBusID())
	}
	full, ok := canonicalBusID(busID)
	if !ok || slices.ContainsFunc(m.gpus, func(g *gpu) bool { return g.busID == full }) {
		return 0, fmt.Errorf("bus id %q: %w", busID, devices.ErrInvalidArgument)
	}
	g := &gpu{model: mod, busID: full, minor: m.freeMinor(), traits: traits{reservedMiB: mod.memoryMiB / defaultReserve}}
	m.place(g)
	g.uuid = m.defaultUUID(g.number)
	return g.number, nil
}

func (m *Machine) lastBusID() string {
	if len(m.gpus) == 0 {
		return ""
	}
	return m.gpus[len(m.gpus)-1].busID
}

// RemoveGPU pulls a GPU out, whoever uses it: to open sessions it is lost, for later ones the indexes behind it move up.
func (m *Machine) RemoveGPU(number int) error {
	return m.onGPU(number, func(g *gpu) error {
		g.removed = true
		m.pulled = append(m.pulled, g)
		m.gpus = slices.DeleteFunc(m.gpus, func(other *gpu) bool { return other == g })
		m.wake()
		return nil
	})
}

// ReturnGPU plugs a GPU in that was pulled out, whole as after a start; busID "" is where it was. Its minor number is the lowest
// that is free.
func (m *Machine) ReturnGPU(number int, busID string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.pulled, func(g *gpu) bool { return g.number == number })
	if i < 0 {
		return fmt.Errorf("gpu number %d was not pulled out: %w", number, devices.ErrNotFound)
	}
	old := m.pulled[i]
	full, ok := old.busID, true
	if busID != "" {
		full, ok = canonicalBusID(busID)
	}
	if !ok || slices.ContainsFunc(m.gpus, func(g *gpu) bool { return g.busID == full }) {
		return fmt.Errorf("bus id %q: %w", busID, devices.ErrInvalidArgument)
	}
	// Another object: to the sessions that knew it the old one stays lost.
	g := &gpu{
		traits: old.traits, number: number, model: old.model, uuid: old.uuid, busID: full, subsystem: old.subsystem,
		minor: m.freeMinor(), numa: old.numa, mig: old.mig && old.model.modeSurvivesReboot,
	}
	g.pending = g.mig
	m.pulled = slices.Delete(m.pulled, i, i+1)
	m.insert(g)
	return nil
}

// SetMinors gives GPUs other minor numbers, as a reload of the driver may; by number of the GPU.
func (m *Machine) SetMinors(minors map[int]int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := map[*gpu]int{}
	taken := map[int]bool{}
	for _, g := range m.gpus {
		next[g] = g.minor
		if minor, ok := minors[g.number]; ok {
			next[g] = minor
		}
		if next[g] < 0 || taken[next[g]] {
			return fmt.Errorf("minor %d of gpu number %d is taken or negative: %w", next[g], g.number, devices.ErrInvalidArgument)
		}
		taken[next[g]] = true
	}
	for g, minor := range next {
		g.minor = minor
	}
	return nil
}
