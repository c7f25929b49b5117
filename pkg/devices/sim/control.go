// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"fmt"
	"slices"

	"gpuslice/pkg/devices"
)

// Controls name GPUs by number: their order in the machine file or spec. Hot-plugged GPUs get the next numbers.
// Every control on a GPU answers ErrNotFound for a number that is not there.

// Lose lets a GPU fall off the bus: calls on it answer ErrLost, and look-ups by UUID fail for all GPUs.
func (m *Machine) Lose(number int) error { return m.setLost(number, true) }

// Restore brings a lost GPU back with what it had; so does Reboot, while a reload of the driver does not.
func (m *Machine) Restore(number int) error { return m.setLost(number, false) }

func (m *Machine) setLost(number int, lost bool) error {
	return m.onGPU(number, func(g *gpu) error {
		g.lost = lost
		m.wake()
		return nil
	})
}

// Persistence turns a GPU's persistence mode on or off.
func (m *Machine) Persistence(number int, on bool) error {
	return m.onGPU(number, func(g *gpu) error {
		g.persistence = on
		return nil
	})
}

// Reset resets a GPU: instances vanish and the pending mode becomes the mode. ErrInUse while a session, a process or
// persistence mode holds it, ErrLost for a lost GPU, ErrNotSupported where the machine cannot reset GPUs.
func (m *Machine) Reset(number int) error {
	m.hook(Hooks.before, "Reset")
	attempt := Attempt{Call: "Reset", GPU: number}
	attempt.Err = m.onGPU(number, func(g *gpu) error {
		switch {
		case g.resetAnswer == resetUnsupported:
			return devices.ErrNotSupported
		case g.gone():
			return devices.ErrLost
		case m.busy(nil, g):
			return devices.ErrInUse
		case g.resetAnswer == resetIgnored:
			return nil
		}
		m.reset(g)
		attempt.Done = true
		return nil
	})
	m.logAttempt(attempt)
	if attempt.Done {
		m.hook(Hooks.after, "Reset")
	}
	return attempt.Err
}

// Reboot starts the node anew: clients and processes are gone, instances vanish, the mode stays where the board keeps it,
// lost GPUs are back, persistence is off, the driver is loaded, and the boot id is another.
func (m *Machine) Reboot() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.killSessions(func(*session) bool { return true })
	m.boots++
	m.loads++
	m.bootID = nameUUID("boot/%d/%d", m.seed, m.boots)
	m.state = driverLoaded
	for _, g := range m.gpus {
		g.lost, g.persistence = false, false
		g.reload()
	}
	m.numberMinors()
}

// numberMinors gives minor numbers in the order of the bus, beside those that were fixed. The caller holds the lock.
func (m *Machine) numberMinors() {
	for _, g := range m.gpus {
		if !g.fixedMinor {
			g.minor = devices.NoInstance
		}
	}
	for _, g := range m.gpus {
		if !g.fixedMinor {
			g.minor = m.freeMinor()
		}
	}
}

// UnloadDriver takes the kernel module out: instances vanish, Init answers ErrDriverNotLoaded. ErrInUse while a session is
// open, a process runs or persistence mode is on.
func (m *Machine) UnloadDriver() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s, open := find(m.sessions, func(s *session) bool { return s.open }); open {
		return fmt.Errorf("driver is open in client %q: %w", s.client.Name, devices.ErrInUse)
	}
	if slices.ContainsFunc(m.gpus, func(g *gpu) bool { return m.busy(nil, g) }) {
		return fmt.Errorf("driver holds busy GPUs: %w", devices.ErrInUse)
	}
	m.state = driverUnloaded
	for _, g := range m.gpus {
		g.reload()
	}
	return nil
}

// LoadDriver puts the kernel module and the matching library in; version "" keeps the version.
func (m *Machine) LoadDriver(version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == driverUnloaded || m.state == driverAbsent {
		m.loads++
	}
	m.state = driverLoaded
	if version != "" {
		m.version = version
	}
}

// MismatchDriver replaces the library under the loaded kernel module: open sessions go on, Init answers ErrVersionMismatch
// until LoadDriver.
func (m *Machine) MismatchDriver() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = driverMismatched
}
