// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"context"
	"fmt"
	"slices"

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

// resetter is the driver's own program, started anew for each reset.
type resetter struct{ machine *Machine }

// Resetter resets GPUs as a client that holds nothing.
func (m *Machine) Resetter() devices.Resetter { return resetter{m} }

// Reset implements devices.Resetter.
func (r resetter) Reset(_ context.Context, busID string) error {
	full, ok := canonicalBusID(busID)
	r.machine.mu.Lock()
	i := slices.IndexFunc(r.machine.gpus, func(g *gpu) bool { return ok && g.busID == full })
	number := devices.NoInstance
	if i >= 0 {
		number = r.machine.gpus[i].number
	}
	r.machine.mu.Unlock()
	if err := r.machine.Reset(number); err != nil {
		return fmt.Errorf("GPU %s could not be reset: %w", busID, err)
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
