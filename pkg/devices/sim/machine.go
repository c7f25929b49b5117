// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"gpuslice/pkg/devices"
)

// driverState is what opening the driver's library meets.
type driverState int

const (
	driverLoaded driverState = iota
	driverUnloaded
	driverMismatched // the library belongs to another version than the kernel module
	driverAbsent     // there is no library
)

// Machine is one node with its GPUs and its driver. It is safe for concurrent use.
type Machine struct {
	mu     sync.Mutex
	closed chan struct{} // closed by Close

	// Guarded by mu.
	state        driverState
	version      string
	cudaVersion  int
	profileNames bool
	memoryLimits *bool // nil: as the version has it
	bootID       string
	boots        int
	loads        int // of the driver
	seed         int64
	uuidReuse    bool
	instances    int // compute instances ever made
	models       map[string]model
	wiring       wiring
	platform     string // of devices
	pulled       []*gpu // GPUs that were pulled out
	gpus         []*gpu // by PCI bus id, which is the order of their indexes
	made         int    // GPUs ever made, the next one's number
	sessions     []*session
	lastHandle   uint64
	changed      chan struct{} // closed and replaced when a waiter has to look again
	latencies    map[string]time.Duration
	faults       []*injected
	counts       map[string]map[string]int // client, call
	attempts     []Attempt
	hooks        Hooks

	systemMemoryMiB uint64
}

// GPU is what the machine says of one of its GPUs, from outside of any session.
type GPU struct {
	Number       int // its name in the machine's controls
	Index        int // the driver's, for sessions that are opened now
	Minor        int
	Model        string
	Product      string
	UUID         string
	BusID        string
	NUMA         int
	PCIDeviceID  uint32 // device id in the upper half, vendor in the lower
	PCISubsystem uint32
	MIG          bool
	Pending      bool
	Persistence  bool
	Lost         bool
	Instances    []Instance
}

// Instance is one compute instance with the GPU instance around it; a GPU instance without any has CI NoInstance.
type Instance struct {
	Slot   string // "3g.40gb@4"
	GI, CI int
	UUID   string
}

// GPUs lists the GPUs by index.
func (m *Machine) GPUs() []GPU {
	m.mu.Lock()
	defer m.mu.Unlock()
	gpus := make([]GPU, len(m.gpus))
	for i, g := range m.gpus {
		gpus[i] = GPU{
			Number: g.number, Index: i, Minor: g.minor, Model: g.model.key, Product: g.model.name, UUID: g.uuid,
			BusID: g.busID, NUMA: g.numa, PCIDeviceID: g.model.pciID, PCISubsystem: g.subsystem, MIG: g.mig, Pending: g.pending,
			Persistence: g.persistence, Lost: g.lost, Instances: g.listInstances(),
		}
	}
	return gpus
}

func (g *gpu) listInstances() []Instance {
	var list []Instance
	for _, gi := range g.gis {
		for _, ci := range gi.cis {
			list = append(list, Instance{Slot: gi.slot(), GI: gi.id, CI: ci.id, UUID: ci.uuid})
		}
		if len(gi.cis) == 0 {
			list = append(list, Instance{Slot: gi.slot(), GI: gi.id, CI: devices.NoInstance})
		}
	}
	return list
}

// BootID changes with every Reboot.
func (m *Machine) BootID() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bootID
}

// Close ends the machine: calls that hang or wait come back, and every later call answers ErrUninitialized.
func (m *Machine) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.isClosed() {
		close(m.closed)
	}
	m.killSessions(func(*session) bool { return true })
}

func (m *Machine) isClosed() bool {
	select {
	case <-m.closed:
		return true
	default:
		return false
	}
}

// wake lets everybody who waits look again. The caller holds the lock.
func (m *Machine) wake() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// gpu finds a GPU by its number. The caller holds the lock.
func (m *Machine) gpu(number int) (*gpu, error) {
	if g, ok := find(m.gpus, func(g *gpu) bool { return g.number == number }); ok {
		return g, nil
	}
	return nil, fmt.Errorf("gpu number %d: %w", number, devices.ErrNotFound)
}

// place puts a new GPU in its order. The caller holds the lock.
func (m *Machine) place(g *gpu) {
	g.number = m.made
	m.made++
	m.insert(g)
}

func (m *Machine) insert(g *gpu) {
	m.gpus = append(m.gpus, g)
	slices.SortFunc(m.gpus, func(a, b *gpu) int { return cmp.Compare(a.busID, b.busID) })
}

// freeMinor is the lowest minor number that no GPU has.
func (m *Machine) freeMinor() int {
	for minor := 0; ; minor++ {
		if !slices.ContainsFunc(m.gpus, func(g *gpu) bool { return g.minor == minor }) {
			return minor
		}
	}
}

// migUUID names a compute instance of a GPU: after its slot, as the driver does, or after its creation too.
func (m *Machine) migUUID(g *gpu) func(gi, ci int) string {
	return func(gi, ci int) string {
		m.instances++
		if m.uuidReuse {
			return "MIG-" + nameUUID("mig/%s/%d/%d", g.uuid, gi, ci)
		}
		return "MIG-" + nameUUID("mig/%s/%d/%d/%d", g.uuid, gi, ci, m.instances)
	}
}

// reset resets one GPU, which nobody holds, and renumbers it where boards do. The caller holds the lock.
func (m *Machine) reset(g *gpu) {
	g.reset()
	if g.renumbers {
		g.minor = m.freeMinor()
	}
}
