// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpuslice/internal/agent"
	"gpuslice/internal/state"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
)

const thor = "models: {thor: {name: NVIDIA Thor, noMemory: true, integrated: true, memoryMiB: 4864, memorySlices: 1, computeSlices: 1, profiles: " +
	"[{name: 1g.5gb, id: 19, slices: 1, maxInstances: 1, memoryMiB: 4864, size: 1, starts: [0]}]}}\n"

// K14, K15, K17: on a machine whose GPUs cannot be handed out nothing is offered or touched, whatever the config says, the reason is
// one of its own, and a card beside them is like any other.
func TestPlatformsThatAreNotSupported(t *testing.T) {
	for _, tc := range []struct{ name, machine, says, offers string }{
		{"Jetson", "platform: Tegra\ndriver: {state: absent}\n", "not supported here: Tegra (found /etc/nv_tegra_release)", ""},
		{"WSL", "platform: WSL\ngpus: [{model: l40s, count: 2}]\n", "not supported here: WSL (found /dev/dxg)", ""},
		{"Thor", "platform: Tegra\n" + thor + "gpus: [{model: thor}]\n", `gpu-0: not supported here: Tegra (found the integrated GPU "NVIDIA Thor")`, ""},
		{"Thor in MIG mode", "platform: Tegra\n" + thor + "gpus: [{model: thor, instances: [1g.5gb@0]}]\n", "the integrated GPU", ""},
		{"Orin, on no bus", "models: {orin: {name: Orin (nvgpu), integrated: true}}\ngpus: [{model: orin, unsupported: [BusID]}]\n", `the integrated GPU "Orin (nvgpu)"`, ""},
		{"a card in a Jetson", "platform: Tegra\n" + thor + "gpus: [{model: thor}, {model: l40s}]\n", "gpu-0: not supported here", "gpu=1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, config := range []string{head, layout("{mig: {fill: 1g}}"), layout("{timeSlicing: {replicas: 4}}")} {
				n := newNode(t, tc.machine)
				n.apply(config)
				if want := tc.offers; !strings.Contains(config, "replicas") || want == "" {
					n.offers(want)
				}
				n.problem(agent.ReasonPlatform, tc.says)
				view, _ := n.View()
				for _, p := range view.Problems {
					if p.Reason != agent.ReasonPlatform && (tc.offers == "" || p.GPU == "gpu-0") {
						t.Errorf("said beside it: %s", p)
					}
				}
				if log := n.machine.Log(); len(log) > 0 {
					t.Errorf("changed: %v", log)
				}
			}
		})
	}
}

// K16: a GPU that works in the host's memory is offered like any other; what it does not answer is no problem.
func TestUnifiedMemoryIsOffered(t *testing.T) {
	n := newNode(t, "gpus: [{model: gb10, pci: '000F:01:00.0', unsupported: [MIGMode, ReservedMemory, PersistenceMode, EventTypes]}]\n")
	n.converge()
	n.offers("gpu=1")
	n.noProblems()
	n.apply(layout("{timeSlicing: {replicas: 4}}"))
	n.offers("gpu=4")
	n.noProblems()
	n.apply(head + "layouts: {it: {timeSlicing: {replicas: 2}}}\nnodes: [{gpus: [{select: {memory: '>=80Gi'}, layout: it}]}]\n")
	n.offers("gpu=2") // a select by memory goes by what there is to work in
}

// A part of a GPU that the host of a virtual machine has cut is offered whole and shared like a card, and neither its mode nor a
// reset is ever tried.
func TestVirtualGPUsAreOfferedWhole(t *testing.T) {
	backed := "models: {x: {name: GRID A100X-1-5C, virtual: true, memoryMiB: 4864, memorySlices: 1, computeSlices: 1, modeNeedsReset: true, profiles: " +
		"[{name: 1g.5gb, id: 19, slices: 1, maxInstances: 1, memoryMiB: 4864, size: 1, starts: [0]}]}}\ngpus: [{model: x, instances: [1g.5gb@0], reset: unsupported}]\n"
	for _, machine := range []string{"gpus: [{model: grid-a100d-40c, reset: unsupported, unsupported: [PersistenceMode, EventTypes]}]\n", "gpus: [{model: a40-48q}]\n", backed} {
		n := newNode(t, machine)
		n.converge()
		n.offers("gpu=1")
		n.noProblems()
		n.apply(layout("{timeSlicing: {replicas: 3}}"))
		n.offers("gpu=3")
		n.noProblems()
		n.apply(resettable("0", "{mig: {fill: 1g}}", "when-idle"))
		n.problem(agent.ReasonImpossible, "is a virtual GPU, which the host of this machine cuts")
		n.offers("gpu=3")
		if log := n.machine.Log(); len(log) > 0 {
			t.Errorf("tried: %v", log)
		}
	}
}

// P6: a GPU that is pulled out while a pod holds it stays in the list as unhealthy, under its id, with the others as before; when
// it is back, wherever it is plugged in and whatever its numbers are, it is healthy again.
func TestPulledOutWhileHeld(t *testing.T) {
	for _, back := range []string{"", "0000:F8:00.0"} {
		n := newNode(t, "3xl40s")
		n.apply(layout("{}"))
		held := n.uuid(0, "")
		n.kubelet.set(nil, holder("gpu", held, "p"))
		if err := n.machine.RemoveGPU(0); err != nil {
			t.Fatal(err)
		}
		for _, restart := range []bool{false, true, true} {
			if restart {
				n.start()
			}
			n.converge()
			n.offers("gpu=2-1")
			n.listedAs(held, false)
		}
		if err := n.machine.SetMinors(map[int]int{1: 0}); err != nil {
			t.Fatal(err)
		}
		if err := n.machine.ReturnGPU(0, back); err != nil {
			t.Fatal(err)
		}
		n.converge()
		n.offers("gpu=3")
		n.listedAs(held, true)
		n.noProblems()
	}
}

// listedAs wants an id in the list once, well or not.
func (n *node) listedAs(id string, healthy bool) {
	n.t.Helper()
	view, _ := n.View()
	found := []string{}
	for _, l := range view.Lists["nvidia.com/gpu"] {
		if l.ID == id {
			found = append(found, l.Fault)
		}
	}
	if len(found) != 1 || (found[0] == "") != healthy {
		n.t.Errorf("%s is listed as %q", id, found)
	}
}

// P6, K10: the driver goes while a pod holds a GPU, and the agent restarts without it: the first list has the held id, unhealthy, and
// nothing else, however the driver is missing; it is back with the driver.
func TestRestartWithoutADriver(t *testing.T) {
	for name, fault := range map[string]sim.Fault{
		"not loaded":                 {Call: "Init", Code: devices.ErrDriverNotLoaded},
		"no library":                 {Call: "Init", Code: devices.ErrLibraryNotFound},
		"library of another version": {Call: "Init", Code: devices.ErrVersionMismatch},
		"every call fails":           {Code: devices.ErrDriverNotLoaded},
		"it has no GPUs any more":    {Call: "GPUByIndex", Code: devices.ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, "2xl40s")
			n.apply(layout("{}"))
			held := n.uuid(1, "")
			n.kubelet.set(nil, holder("gpu", held, "p"))
			release, err := n.machine.Fail(fault)
			if err != nil {
				t.Fatal(err)
			}
			n.start()
			n.converge()
			n.offers("gpu=0-1")
			n.listedAs(held, false)
			release()
			n.converge()
			n.offers("gpu=2")
			n.noProblems()
		})
	}
}

// P3: all calls answer that the driver is gone, while the agent runs: every GPU is unhealthy, none is forgotten, and all are back with
// the driver.
func TestDriverGoesWhileHeld(t *testing.T) {
	n := newNode(t, "2xl40s")
	n.apply(layout("{}"))
	n.kubelet.set(nil, holder("gpu", n.uuid(1, ""), "p"))
	n.converge()
	release, err := n.machine.Fail(sim.Fault{Code: devices.ErrDriverNotLoaded})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		n.converge()
		n.offers("gpu=0-2")
		n.problem(agent.ReasonNoDriver, "DRIVER_NOT_LOADED")
	}
	release()
	n.converge()
	n.offers("gpu=2")
	n.noProblems()
}

// numbered is a node whose minor numbers are neither the indexes nor without gaps.
const numbered = "gpus: [{model: l40s, minor: 3}, {model: h100-sxm5-80gb, minor: 0, instances: [3g.40gb@4]}, {model: l40s, minor: 7}]\n"

// A GPU is called after its minor number, chosen by the driver's index, and listed under its UUID.
func TestMinorIsNotIndex(t *testing.T) {
	n := newNode(t, numbered)
	n.apply(head + "layouts: {it: {timeSlicing: {replicas: 2, rename: true}}}\nnodes: [{gpus: [{select: {index: 2}, layout: it}]}]\n")
	n.offers("gpu=1 gpu.shared=2 mig-3g.40gb=1")
	view, _ := n.View()
	names := []string{}
	for _, d := range view.Devices {
		names = append(names, fmt.Sprintf("%s %s %t", d.Name, d.Resource, slices.Contains([]string{n.uuid(0, ""), n.uuid(2, ""), n.uuid(1, "3g.40gb@4")}, d.UUID)))
	}
	if want := "[gpu-3 nvidia.com/gpu true gpu-0-mig-3g40gb-9-4 nvidia.com/mig-3g.40gb true gpu-7 nvidia.com/gpu.shared true]"; fmt.Sprint(names) != want {
		t.Errorf("devices are %v\nwant %s", names, want)
	}
	if err := n.machine.RemoveGPU(0); err != nil { // index 2 is nobody now, and the one that had it is index 1
		t.Fatal(err)
	}
	n.converge()
	n.offers("gpu=1-1 mig-3g.40gb=1")
	n.converge() // by now it is known that nobody held the one that is gone
	n.offers("gpu=1 mig-3g.40gb=1")
}

// P1: minor numbers change hands with a reload of the driver while claims hold their GPUs by name: the names stay with the GPUs, no
// two GPUs have one name, and a claim that is prepared again has the same GPU.
func TestNamesStayWithTheirGPUs(t *testing.T) {
	viaDRA := strings.Replace(layout("{}"), "layout: it", "layout: it, serve: dra", 1)
	for _, tc := range []struct {
		name  string
		held  map[string]int // name by number of the GPU, held by a claim
		moved map[int]int
		want  string // names by number of the GPU
	}{
		{"nobody holds any", nil, map[int]int{0: 1, 1: 0}, "[gpu-1 gpu-0 gpu-2]"},
		{"two swap, one is held", map[string]int{"gpu-0": 0}, map[int]int{0: 1, 1: 0}, "[gpu-0 gpu-1 gpu-2]"},
		{"two swap, both are held", map[string]int{"gpu-0": 0, "gpu-1": 1}, map[int]int{0: 1, 1: 0}, "[gpu-0 gpu-1 gpu-2]"},
		{"a ring", map[string]int{"gpu-2": 2}, map[int]int{0: 1, 1: 2, 2: 0}, "[gpu-1 gpu-0 gpu-2]"},
		{"to a number of its own", map[string]int{"gpu-1": 1}, map[int]int{1: 9}, "[gpu-0 gpu-1 gpu-2]"},
		{"its number goes to another", map[string]int{"gpu-0": 0}, map[int]int{0: 9, 2: 0}, "[gpu-0 gpu-1 gpu-9]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := newNode(t, "3xl40s")
			n.apply(viaDRA)
			claim := func(name string) state.Claim {
				return state.Claim{UID: "uid-" + name, Namespace: "team-a", Name: "c", Devices: []state.Device{{Request: "r", Pool: "n1", Name: name}}}
			}
			for name := range tc.held {
				if _, err := n.Reserve(claim(name), []string{name}); err != nil {
					t.Fatal(err)
				}
			}
			if err := n.machine.SetMinors(tc.moved); err != nil {
				t.Fatal(err)
			}
			for _, restart := range []bool{false, true} {
				if restart {
					n.start()
				}
				n.apply(viaDRA)
				view, _ := n.View()
				names := []string{}
				for _, d := range view.Devices {
					names = append(names, d.Name)
				}
				if fmt.Sprint(names) != tc.want {
					t.Errorf("names are %v, want %s", names, tc.want)
				}
				for name, gpu := range tc.held {
					got, err := n.Reserve(claim(name), []string{name})
					if err != nil || got[0].UUID != n.uuid(gpu, "") {
						t.Errorf("%s again: %v, %v", name, got, err)
					}
					if _, err := n.Reserve(state.Claim{UID: "other", Devices: make([]state.Device, 1)}, []string{name}); !errors.Is(err, agent.ErrHeld) {
						t.Errorf("%s for another claim: %v", name, err)
					}
				}
			}
		})
	}
}

// K02, P11: the driver takes 40 s to open. Meanwhile nothing is offered and the reason is said; afterwards the GPUs are offered by the
// next look, in the same process.
func TestDriverTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, "2xl40s")
		if err := n.machine.SetLatency("Init", 40*time.Second); err != nil {
			t.Fatal(err)
		}
		if err := n.SetConfig("config.yaml", []byte(layout("{}"))); err != nil {
			t.Fatal(err)
		}
		started := time.Now()
		n.converge()
		n.offers("")
		n.problem(agent.ReasonNoDriver, "driver does not answer")
		ended := make(chan error, 1)
		go func() { ended <- n.Run(t.Context()) }()
		for n.lists() == "" && time.Since(started) < time.Minute {
			_, changed := n.View()
			<-changed
		}
		n.offers("gpu=2")
		n.noProblems()
		if took := time.Since(started); took < 40*time.Second || took > 51*time.Second {
			t.Errorf("offered after %v; the driver takes 40 s and a poll 10 s", took)
		}
		if calls := n.machine.Calls("agent")["Init"]; calls != 1 {
			t.Errorf("opened %d times", calls)
		}
		n.machine.Close()
	})
}

// H10: a look-up of a MIG device fails once: the devices of that GPU alone are unhealthy until the next pass, with the driver's
// answer, and are well again by themselves.
func TestLookUpOfAMIGDeviceFailsOnce(t *testing.T) {
	for _, call := range []string{"MIGDevice", "MIGDeviceIDs", "GIInfo"} {
		n := newNode(t, "gpus: [{model: h100-sxm5-80gb, instances: [3g.40gb@4, 1g.10gb@0]}, {model: l40s}]\n")
		n.converge()
		if _, err := n.machine.Fail(sim.Fault{Call: call, Nth: 1, Code: devices.ErrUnknown}); err != nil {
			t.Fatal(err)
		}
		n.converge()
		n.offers("gpu=1 mig-1g.10gb=0-1 mig-3g.40gb=0-1")
		n.problem(agent.ReasonGPUFault, "driver answered UNKNOWN")
		n.converge()
		n.offers("gpu=1 mig-1g.10gb=1 mig-3g.40gb=1")
		n.noProblems()
	}
}
