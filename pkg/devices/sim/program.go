// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"gpuslice/pkg/devices"
)

// PersistenceMode implements devices.Persister.
func (s *session) PersistenceMode(h devices.GPUHandle) (bool, error) {
	return ask(s, "PersistenceMode", h, func(r ref) (bool, error) { return r.gpu.persistence, nil }, gpuRef)
}

// SetPersistenceMode implements devices.Persister.
func (s *session) SetPersistenceMode(h devices.GPUHandle, on bool) error {
	return s.run(operation{name: "SetPersistenceMode", where: s.on(h), changes: true}, func() error {
		r, err := s.resolve(uint64(h), gpuRef)
		switch {
		case err != nil:
			return err
		case !s.client.Root:
			return devices.ErrNoPermission
		}
		r.gpu.persistence = on
		return nil
	})
}

// program is the driver's own, started anew for each job.
type program struct{ machine *Machine }

// Program is nvidia-smi, a client that holds nothing.
func (m *Machine) Program() devices.Program { return program{m} }

// number finds the GPU of a bus id; NoInstance, which no control knows, stands for none.
func (p program) number(busID string) int {
	full, ok := canonicalBusID(busID)
	p.machine.mu.Lock()
	defer p.machine.mu.Unlock()
	i := slices.IndexFunc(p.machine.gpus, func(g *gpu) bool { return ok && g.busID == full })
	if i < 0 {
		return devices.NoInstance
	}
	return p.machine.gpus[i].number
}

// Reset implements devices.Program.
func (p program) Reset(_ context.Context, busID string) error {
	if err := p.machine.Reset(p.number(busID)); err != nil {
		return fmt.Errorf("GPU %s could not be reset: %w", busID, err)
	}
	return nil
}

// TimeSlice implements devices.Program.
func (p program) TimeSlice(_ context.Context, busID string) (int, error) {
	return p.machine.TimeSlice(p.number(busID))
}

// SetTimeSlice implements devices.Program.
func (p program) SetTimeSlice(_ context.Context, busID string, interval int) error {
	return p.machine.SetTimeSlice(p.number(busID), interval)
}

const (
	architectureTuring = 6 // NVML_DEVICE_ARCH_TURING, the first with a choice of time slices
	longestTimeSlice   = 3
)

// TimeSlice is the GPU's: 0 default, 1 short, 2 medium, 3 long. The kernel module keeps it until it is unloaded.
func (m *Machine) TimeSlice(number int) (interval int, err error) {
	err = m.onGPU(number, func(g *gpu) error {
		interval = g.timeSlice
		return g.hasTimeSlices()
	})
	return interval, err
}

// SetTimeSlice changes it.
func (m *Machine) SetTimeSlice(number, interval int) error {
	attempt := Attempt{Call: "SetTimeSlice", GPU: number, Slot: strconv.Itoa(interval)}
	attempt.Err = m.onGPU(number, func(g *gpu) error {
		if err := g.hasTimeSlices(); err != nil {
			return err
		}
		if interval < 0 || interval > longestTimeSlice {
			return devices.ErrInvalidArgument
		}
		g.timeSlice = interval
		attempt.Done = true
		return nil
	})
	m.logAttempt(attempt)
	return attempt.Err
}

func (g *gpu) hasTimeSlices() error {
	switch {
	case g.gone():
		return devices.ErrLost
	case g.model.architecture < architectureTuring:
		return devices.ErrNotSupported
	}
	return nil
}

// holders tells one client who else holds a GPU, as /proc does on a real node.
type holders struct {
	machine *Machine
	client  string
}

// HoldersFor is what a client can find out about the others.
func (m *Machine) HoldersFor(client string) devices.Holders { return holders{m, client} }

// Clients implements devices.Holders.
func (h holders) Clients(busID string, _ int) []string {
	full, _ := canonicalBusID(busID)
	h.machine.mu.Lock()
	defer h.machine.mu.Unlock()
	var names []string
	for _, s := range h.machine.sessions {
		for held := range s.held {
			if held.busID == full && s.client.Name != h.client {
				names = append(names, "client "+s.client.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Modules implements devices.Holders.
func (holders) Modules() []string { return nil }
