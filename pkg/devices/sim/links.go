// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"cmp"
	"fmt"
	"slices"

	"gpuslice/pkg/devices"
)

// couple is two GPUs by number, the lower first.
type couple [2]int

func coupleOf(a, b int) couple { return couple{min(a, b), max(a, b)} }

// wiring says how the GPUs of a machine are joined beyond what their models and NUMA nodes say.
type wiring struct {
	levels  map[couple]int // what two GPUs have in common on the PCIe bus; else it is what their NUMA nodes say
	bridges map[couple]int // NVLinks from GPU to GPU
	fabric  fabric
}

// fabric is which GPUs have NVLinks into NVSwitch.
type fabric int

const (
	byModel  fabric = iota // those of boards that have one
	everyGPU               // all
	noGPU
)

// switched is how many NVLinks into NVSwitch the GPUs of a board have: 6 of each GPU to 18, from their data sheets.
var switched = map[string]int{
	"a100-sxm4-40gb": 12, "a100-sxm4-80gb": 12, "h100-sxm5-80gb": 18, "h200-sxm5-141gb": 18,
	"b200-180gb": 18, "gb200-186gb": 18, "b300-269gb": 18, "gb300-278gb": 18,
}

// pluggedLinks is for a GPU that is on a fabric although no board of its model has one.
const pluggedLinks = 12

// maxNVLinks leaves room for GPUs with more links than any has today.
const maxNVLinks = 2 * devices.NVLinks

// switches is how many NVSwitches a fabric has; links go to them in turn.
const switches = 4

// wire is one NVLink of a GPU.
type wire struct {
	peer  *gpu   // nil for a switch
	busID string // of what is at the other end
}

// wires lists the NVLinks of a GPU by number: those to other GPUs, by their numbers, then those to switches. The caller holds
// the lock.
func (m *Machine) wires(g *gpu) []wire {
	var all []wire
	for pair, n := range m.wiring.bridges {
		if i := slices.Index(pair[:], g.number); i >= 0 {
			if peer, err := m.gpu(pair[1-i]); err == nil {
				all = append(all, slices.Repeat([]wire{{peer: peer, busID: peer.busID}}, n)...)
			}
		}
	}
	slices.SortFunc(all, func(a, b wire) int { return cmp.Compare(a.peer.number, b.peer.number) })
	for i := range m.wiring.fabricLinks(g.model) {
		all = append(all, wire{busID: fmt.Sprintf("00000000:%02X:00.0", 0xFC+i%switches)})
	}
	return all
}

func (w wiring) fabricLinks(m model) int {
	switch {
	case w.fabric == noGPU:
		return 0
	case w.fabric == everyGPU && m.nvlinks == 0:
		return pluggedLinks
	}
	return m.nvlinks
}

// level is what two GPUs have in common on the PCIe bus.
func (m *Machine) level(a, b *gpu) int {
	level, known := m.wiring.levels[coupleOf(a.number, b.number)]
	switch {
	case a == b:
		return devices.LevelInternal
	case known:
		return level
	case a.numa == b.numa:
		return devices.LevelNode
	}
	return devices.LevelSystem
}

// CommonAncestor implements devices.Topologist.
func (s *session) CommonAncestor(a, b devices.GPUHandle) (level int, err error) {
	return ask(s, "CommonAncestor", a, func(first ref) (int, error) {
		second, err := s.gpuOf(b)
		if err != nil {
			return 0, err
		}
		return s.machine.level(first.gpu, second), nil
	}, gpuRef)
}

// NVLinkActive implements devices.Topologist; a link to a GPU that is gone is down.
func (s *session) NVLinkActive(h devices.GPUHandle, link int) (bool, error) {
	return askWire(s, "NVLinkActive", h, link, func(w wire) (bool, error) { return w.isUp(), nil })
}

// NVLinkEnd implements devices.Topologist.
func (s *session) NVLinkEnd(h devices.GPUHandle, link int) (devices.NVLinkEnd, error) {
	return askWire(s, "NVLinkEnd", h, link, func(w wire) (devices.NVLinkEnd, error) {
		switch {
		case !w.isUp():
			return devices.EndUnknown, nil
		case w.peer == nil:
			return devices.EndSwitch, nil
		}
		return devices.EndGPU, nil
	})
}

// NVLinkBusID implements devices.Topologist.
func (s *session) NVLinkBusID(h devices.GPUHandle, link int) (string, error) {
	return askWire(s, "NVLinkBusID", h, link, func(w wire) (string, error) {
		if !w.isUp() {
			return "", devices.ErrNotSupported
		}
		return w.busID, nil
	})
}

func (w wire) isUp() bool { return w.peer == nil || !w.peer.gone() }

// askWire answers a question about one NVLink.
func askWire[T any](s *session, name string, h devices.GPUHandle, link int, answer func(wire) (T, error)) (T, error) {
	return ask(s, name, h, func(r ref) (T, error) {
		var none T
		all := s.machine.wires(r.gpu)
		switch {
		case link < 0 || link >= maxNVLinks:
			return none, devices.ErrInvalidArgument
		case len(all) == 0:
			return none, devices.ErrNotSupported
		case link >= len(all):
			return none, devices.ErrInvalidArgument
		}
		return answer(all[link])
	}, gpuRef)
}
