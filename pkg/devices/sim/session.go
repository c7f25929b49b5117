// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"slices"

	"gpuslice/pkg/devices"
)

// Client is who opens the driver.
type Client struct {
	Name string // in Calls, Log and faults
	PID  int
	// PIDNamespace is a path such as "pod-a" or "kind/pod-a"; "" is the host's. A client sees the processes of its
	// namespace and of those below.
	PIDNamespace string
	Root         bool // may change the mode, and has the capabilities below
	Config       bool // mig/config: reads profiles, makes and destroys instances
	Monitor      bool // mig/monitor: reads what concerns all instances of a GPU
}

// Admin is a client on the host that may do everything.
func Admin(name string) Client { return Client{Name: name, PID: 1, Root: true} }

func (c Client) mayConfig() bool  { return c.Root || c.Config }
func (c Client) mayMonitor() bool { return c.Root || c.Monitor }

// session is one client's view of the machine.
//
// A session holds every GPU whose handle it took, and every MIG device whose handle it took, until Shutdown or until the
// client is gone. While another session holds it, a GPU is neither reset nor changes its mode, and the compute instance of a
// MIG device, with the GPU instance around it, is not destroyed (the kernel counts subscriptions); the driver is not unloaded
// while any session is open. Persistence mode holds a GPU against reset, mode change and unload as well.
// A session sees the GPUs that were there at its Init: later ones are absent, removed ones are lost.
type session struct {
	machine *Machine
	client  Client

	// Guarded by the machine's lock.
	open    bool
	killed  bool
	gpus    []*gpu
	handles map[uint64]ref
	numbers map[ref]uint64
	held    map[*gpu]bool
	sets    []*eventSet
}

var _ devices.Driver = (*session)(nil)

// Open gives the client a session of its own, not yet initialised.
func (m *Machine) Open(c Client) devices.Driver {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &session{machine: m, client: c}
	m.sessions = append(m.sessions, s)
	return s
}

// CloseClient is the end of a client's process: its sessions let go of everything, its calls come back.
func (m *Machine) CloseClient(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.killSessions(func(s *session) bool { return s.client.Name == name })
}

// killSessions ends sessions for good. The caller holds the lock.
func (m *Machine) killSessions(which func(*session) bool) {
	m.sessions = slices.DeleteFunc(m.sessions, func(s *session) bool {
		if !which(s) {
			return false
		}
		s.release()
		s.killed = true
		return true
	})
	m.wake()
}

// release lets go of everything the session holds. The caller holds the lock.
func (s *session) release() {
	s.open = false
	s.gpus, s.handles, s.numbers, s.held, s.sets = nil, nil, nil, nil, nil
}

// Init implements devices.Enumerator.
func (s *session) Init() error {
	return s.call("Init", nowhere, func() error {
		switch s.machine.state {
		case driverUnloaded:
			return devices.ErrDriverNotLoaded
		case driverMismatched:
			return devices.ErrVersionMismatch
		case driverAbsent:
			return devices.ErrLibraryNotFound
		case driverLoaded:
		}
		if s.open {
			return nil
		}
		s.open = true
		s.gpus = slices.Clone(s.machine.gpus)
		s.handles, s.numbers, s.held = map[uint64]ref{}, map[ref]uint64{}, map[*gpu]bool{}
		return nil
	})
}

// Shutdown implements devices.Enumerator.
func (s *session) Shutdown() error {
	return s.call("Shutdown", nowhere, func() error {
		s.release()
		s.machine.wake()
		return nil
	})
}

// heldByOther says whether a session other than s has a hold on the GPU; s may be nil.
func (m *Machine) heldByOther(s *session, g *gpu) bool {
	return slices.ContainsFunc(m.sessions, func(other *session) bool { return other != s && other.held[g] })
}

// busy says whether anybody but s keeps the GPU from changing its mode or being reset.
func (m *Machine) busy(s *session, g *gpu) bool {
	return g.persistence || len(g.processes) > 0 || m.heldByOther(s, g)
}

// subscribed says whether a session other than s holds the MIG device.
func (m *Machine) subscribed(s *session, ci *computeInstance) bool {
	device := ref{kind: migRef, gpu: ci.gi.gpu, gi: ci.gi, ci: ci}
	return slices.ContainsFunc(m.sessions, func(other *session) bool {
		_, held := other.numbers[device]
		return other != s && held
	})
}
