// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
)

// onHost is hardware that knows all that a machine's host tells.
func onHost(m *sim.Machine) *devices.Hardware {
	host := m.Host()
	return devices.New(m.Open(sim.Admin("test")), devices.Options{
		CallLimit: time.Second, Platforms: host, SystemMemory: host.SystemMemory, Bound: host.Bound, NUMANode: host.NUMANode,
	})
}

const thor = "models: {thor: {name: NVIDIA Thor, computeCapability: '11.0', noMemory: true, integrated: true}, orin: {name: Orin (nvgpu), integrated: true}}\n"

// K14, K15, K17: what kind of machine it is decides whether there is anything to hand out, and is said with what was found. A
// library, or a driver that is not there yet, is not what makes a system on a chip.
func TestPlatforms(t *testing.T) {
	for _, tc := range []struct{ name, machine, fails, lines string }{
		{"Tegra without the library", "platform: Tegra\ndriver: {state: absent}\n", "not supported here: Tegra (found /etc/nv_tegra_release): driver answered LIBRARY_NOT_FOUND", ""},
		{"Tegra whose driver is not loaded yet", "platform: Tegra\ndriver: {state: unloaded}\ngpus: [{model: l40s}]\n", "open the driver: driver answered DRIVER_NOT_LOADED", ""},
		{"no library on another machine", "driver: {state: absent}\n", "open the driver: driver answered LIBRARY_NOT_FOUND", ""},
		{"WSL, where the library works", "platform: WSL\ngpus: [{model: l40s, count: 2}]\n", "not supported here: WSL (found /dev/dxg)", ""},
		{
			"Tegra with a card", "platform: Tegra\n" + thor + "gpus: [{model: thor}, {model: l40s}]\n", "",
			`gpu-0 thor unsupported="not supported here: Tegra (found the integrated GPU \"NVIDIA Thor\")"` + "\ngpu-1 l40s",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n, err := onHost(machineFile(t, tc.machine)).Snapshot(t.Context())
			if (err == nil) != (tc.fails == "") || err != nil && !strings.HasSuffix(err.Error(), tc.fails) {
				t.Errorf("Snapshot: %v, want %q", err, tc.fails)
			}
			if got := lines(n); got != tc.lines {
				t.Errorf("read %s, want %s", got, tc.lines)
			}
		})
	}
}

// K14: the library of WSL is not opened, which would hold the GPUs for nothing.
func TestWSLIsNotOpened(t *testing.T) {
	m := machineFile(t, "platform: WSL\ngpus: [{model: l40s}]\n")
	_, err := onHost(m).Snapshot(t.Context())
	if platform, is := errors.AsType[devices.PlatformError](err); !is || platform.Name != devices.WSL || m.Calls("test")["Init"] != 0 {
		t.Errorf("%v after %v", err, m.Calls("test"))
	}
}

// K15, K17: the GPU of a system on a chip may lack every property that a card has, down to the address; it is said to be there and
// harms no card beside it (P3).
func TestIntegratedGPUsMayLackEverything(t *testing.T) {
	for _, tc := range []struct {
		name, lacks string
		named       int // GPUs with an address
	}{
		{"minor", "[Minor]", 2},
		{"UUID", "[UUID, Index, Minor, Brand, Memory, MIGMode]", 2},
		{"address", "[BusID, Minor]", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := machineFile(t, thor+"gpus: [{model: orin, unsupported: "+tc.lacks+"}, {model: l40s}]\n")
			n := snapshot(t, onHost(m))
			said := []string{}
			for _, why := range n.Unsupported {
				said = append(said, why.Error())
			}
			for _, g := range n.GPUs {
				if g.Fault != nil {
					t.Errorf("%s", g)
				}
				if g.Unsupported != nil {
					said = append(said, g.Unsupported.Error())
				}
			}
			if want := `[not supported here: Tegra (found the integrated GPU "Orin (nvgpu)")]`; fmt.Sprint(said) != want || len(n.GPUs) != tc.named || n.Silent != 0 {
				t.Errorf("said %v of %s, %d silent", said, lines(n), n.Silent)
			}
		})
	}
}

// K16, P7: a GPU without memory of its own is like any other, with the memory of the host; what nobody knows stays unknown.
func TestUnifiedMemory(t *testing.T) {
	for _, tc := range []struct {
		name, machine string
		memory        uint64
	}{
		{"GB10", "systemMemoryMiB: 122570\ngpus: [{model: gb10, pci: '000F:01:00.0', unsupported: [MIGMode, PersistenceMode, ReservedMemory, EventTypes, Brand]}]\n", 122570},
		{"the host says nothing", "systemMemoryMiB: 0\ngpus: [{model: gb10}]\n", 0},
		{"by its answer, not by its name", "systemMemoryMiB: 4096\ngpus: [{model: l40s, unsupported: [Memory]}]\n", 4096},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := snapshot(t, onHost(machineFile(t, tc.machine))).GPUs[0]
			if g.Fault != nil || !g.Unified || g.MemoryMiB != tc.memory || g.IsMIGCapable() {
				t.Errorf("%s: unified %t, memory %d", g, g.Unified, g.MemoryMiB)
			}
		})
	}
	if g := snapshot(t, onHost(machine(t, "1xl40s"))).GPUs[0]; g.Unified || g.MemoryMiB != 46068 {
		t.Errorf("a card: unified %t, memory %d", g.Unified, g.MemoryMiB)
	}
}

// A part of a GPU that the host has cut is whole in the machine that it is given to, also where the driver shows there how it was cut.
func TestVirtualGPUsAreWhole(t *testing.T) {
	backed := "models: {x: {name: GRID A100X-1-5C, virtual: true, memoryMiB: 4864, memorySlices: 1, computeSlices: 1, profiles: " +
		"[{name: 1g.5gb, id: 19, slices: 1, maxInstances: 1, memoryMiB: 4864, size: 1, starts: [0]}]}}\ngpus: [{model: x, instances: [1g.5gb@0]}]\n"
	for _, tc := range []struct {
		name, machine, line string
		memory              uint64
	}{
		{"time-sliced by the host", "gpus: [{model: grid-a100d-40c}]\n", "gpu-0 grid-a100d-40c", 40960},
		{"workstation", "gpus: [{model: a40-48q, unsupported: [PersistenceMode, EventTypes, ReservedMemory], reset: unsupported}]\n", "gpu-0 a40-48q", 49152},
		{"backed by an instance", backed, "gpu-0 grid-a100x-1-5c", 4864},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := snapshot(t, onHost(machineFile(t, tc.machine))).GPUs[0]
			if g.String() != tc.line || !g.Virtual || g.MemoryMiB != tc.memory || g.IsMIGCapable() {
				t.Errorf("%s: virtual %t, memory %d, can be cut %t", g, g.Virtual, g.MemoryMiB, g.IsMIGCapable())
			}
		})
	}
}
