// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
	"gpuslice/pkg/topology"
)

func machineFile(t *testing.T, text string) *sim.Machine {
	t.Helper()
	m, err := sim.ParseYAML([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// linked is a snapshot with the links read.
func linked(t *testing.T, hw *devices.Hardware) devices.Node {
	t.Helper()
	n := snapshot(t, hw)
	n.Links = hw.ReadLinks(t.Context(), n.GPUs)
	return n
}

// linkTable prints the links by index: "0-1 same-cpu 4", without those of which nothing is known.
func linkTable(n devices.Node) string {
	lines := []string{}
	for i, a := range n.GPUs {
		for j, b := range n.GPUs[:i] {
			if link := n.Links.Between(a.PCI, b.PCI); link != (topology.Link{}) {
				lines = append(lines, fmt.Sprintf("%d-%d %s %d", j, i, link.PCIe, link.NVLinks))
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}

func TestLinks(t *testing.T) {
	for _, tc := range []struct{ name, machine, want string }{
		{"PCIe cards on two sockets", "gpus: [{model: l40s, count: 3}]", "0-1 same-cpu 0, 0-2 cross-cpu 0, 1-2 cross-cpu 0"},
		{"NVSwitch", "gpus: [{model: h100-sxm5-80gb, count: 2}]", "0-1 cross-cpu 18"},
		{
			"two generations have no fabric together", "gpus: [{model: h100-sxm5-80gb}, {model: a100-sxm4-40gb, count: 2}]",
			"0-1 same-cpu 0, 0-2 cross-cpu 0, 1-2 cross-cpu 12",
		},
		{"bridges", "gpus: [{model: l40s, count: 4, numa: 0}]\nlinks: {topology: bridged-pairs}", "0-1 same-cpu 4, 0-2 same-cpu 0, 0-3 same-cpu 0, 1-2 same-cpu 0, 1-3 same-cpu 0, 2-3 same-cpu 4"},
		{
			"every class", "gpus: [{model: l40s, count: 4}]\nlinks:\n  topology: numa\n  pairs:\n  - {gpus: [1, 0], pcie: internal}\n" +
				"  - {gpus: [0, 2], pcie: single}\n  - {gpus: [0, 3], pcie: multiple, nvlinks: 2}\n  - {gpus: [1, 2], pcie: hostbridge}\n  - {gpus: [1, 3], pcie: node}\n",
			"0-1 same-board 0, 0-2 single-switch 0, 0-3 multi-switch 2, 1-2 host-bridge 0, 1-3 same-cpu 0, 2-3 same-cpu 0",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := linkTable(linked(t, open(machineFile(t, tc.machine)))); got != tc.want {
				t.Errorf("links are %s\nwant %s", got, tc.want)
			}
		})
	}
}

// H04, P3: a GPU that is lost, or of which one call fails, loses its own links; the others keep theirs.
func TestLostGPULosesItsRow(t *testing.T) {
	m := machine(t, "4xh100-sxm5-80gb")
	hw := open(m)
	all := linkTable(linked(t, hw))
	if err := m.Lose(3); err != nil {
		t.Fatal(err)
	}
	three := "0-1 same-cpu 18, 0-2 cross-cpu 18, 1-2 cross-cpu 18"
	if got := linkTable(linked(t, hw)); got != three {
		t.Errorf("links are %s\nwant %s", got, three)
	}
	if err := m.Restore(3); err != nil {
		t.Fatal(err)
	}
	if got := linkTable(linked(t, hw)); got != all {
		t.Errorf("links are %s\nwant %s", got, all)
	}
}

// K16, P7: what a driver does not tell is not known, which is no fault; what fails is asked again.
func TestLinksThatAreNotTold(t *testing.T) {
	for _, tc := range []struct{ name, call, code, want, then string }{
		{"no PCIe level", "CommonAncestor", "NOT_SUPPORTED", "0-1 unknown 18, 0-2 unknown 18, 1-2 unknown 18", "0-1 unknown 18, 0-2 unknown 18, 1-2 unknown 18"},
		{"no NVLink calls", "NVLinkActive", "FUNCTION_NOT_FOUND", "0-1 same-cpu 0, 0-2 cross-cpu 0, 1-2 cross-cpu 0", "0-1 same-cpu 0, 0-2 cross-cpu 0, 1-2 cross-cpu 0"},
		{"no ends of links", "NVLinkEnd", "FUNCTION_NOT_FOUND", "0-1 same-cpu 0, 0-2 cross-cpu 0, 1-2 cross-cpu 0", "0-1 same-cpu 0, 0-2 cross-cpu 0, 1-2 cross-cpu 0"},
		{"a failure passes", "CommonAncestor", "UNKNOWN", "0-1 unknown 18, 0-2 unknown 18, 1-2 unknown 18", "0-1 same-cpu 18, 0-2 cross-cpu 18, 1-2 cross-cpu 18"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := machine(t, "3xh100-sxm5-80gb")
			code, err := devices.ParseCode(tc.code)
			if err != nil {
				t.Fatal(err)
			}
			release := fault(t, m, sim.Fault{Call: tc.call, Code: code})
			hw := open(m)
			n := linked(t, hw)
			if got := linkTable(n); got != tc.want {
				t.Errorf("links are %s\nwant %s", got, tc.want)
			}
			for _, g := range n.GPUs {
				if g.Fault != nil {
					t.Errorf("%s", g)
				}
			}
			release()
			if got := linkTable(linked(t, hw)); got != tc.then {
				t.Errorf("afterwards links are %s\nwant %s", got, tc.then)
			}
		})
	}
}

// Bridges are found by address alone on drivers that do not tell what a link ends at.
func TestBridgesOnOldDrivers(t *testing.T) {
	m := machineFile(t, "gpus: [{model: l40s, count: 2, numa: 0}]\nlinks: {topology: bridged-pairs}")
	fault(t, m, sim.Fault{Call: "NVLinkEnd", Code: devices.ErrFunctionNotFound})
	if got, want := linkTable(linked(t, open(m))), "0-1 same-cpu 4"; got != want {
		t.Errorf("links are %s, want %s", got, want)
	}
}

// A GPU whose calls about links never return costs itself, after the limit; the others know their links.
func TestLinksOfAHungGPU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := machine(t, "4xh100-sxm5-80gb")
		release := fault(t, m, sim.Fault{Call: "NVLinkActive", GPUs: []int{2}, Form: sim.Hung})
		hw := open(m)
		start := time.Now()
		n := linked(t, hw)
		if took := time.Since(start); took != time.Second {
			t.Errorf("took %v", took)
		}
		if got, want := linkTable(n), "0-1 same-cpu 18, 0-2 cross-cpu 0, 0-3 cross-cpu 18, 1-2 cross-cpu 0, 1-3 cross-cpu 18"; got != want {
			t.Errorf("links are %s\nwant %s", got, want)
		}
		release()
		synctest.Wait()
		if got, want := linkTable(linked(t, hw)), linkTable(linked(t, open(m))); got != want {
			t.Errorf("afterwards links are %s\nwant %s", got, want)
		}
	})
}

// Links are read once, and again when GPUs come; those of GPUs that go are forgotten.
func TestLinksAreReadOnce(t *testing.T) {
	m := machine(t, "3xh100-sxm5-80gb")
	calls := func() (n int) {
		for _, call := range []string{"CommonAncestor", "NVLinkActive", "NVLinkEnd", "NVLinkBusID"} {
			n += m.Calls("test")[call]
		}
		return n
	}
	hw := open(m)
	linked(t, hw)
	first := calls()
	linked(t, hw)
	if again := calls() - first; first == 0 || again != 0 {
		t.Errorf("%d calls at first, %d in a later look", first, again)
	}
	if _, err := m.AddGPU("h100-sxm5-80gb", ""); err != nil {
		t.Fatal(err)
	}
	if err := hw.Close(t.Context()); err != nil { // a session goes on counting what it found at its start
		t.Fatal(err)
	}
	if got := len(linked(t, hw).Links); got != 6 {
		t.Errorf("%d links of 4 GPUs", got)
	}
	if err := m.RemoveGPU(0); err != nil {
		t.Fatal(err)
	}
	if err := hw.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := calls()
	if got := len(linked(t, hw).Links); got != 3 || calls() != before {
		t.Errorf("%d links of 3 GPUs, after %d calls", got, calls()-before)
	}
}

// N03: the number of links is what the GPU answers, not what was true of the GPUs of some year; an end of an unknown kind leads to no
// GPU and is no fault.
func TestAnyNumberOfLinks(t *testing.T) {
	for _, links := range []int{0, 18, 24, 36, 72} {
		m := machineFile(t, fmt.Sprintf("models: {new: {name: NVIDIA New, architecture: 13, memoryMiB: 1024, nvlinks: %d}}\ngpus: [{model: new, count: 2, numa: 0}]\n", links))
		hw := open(m)
		if got, want := linkTable(linked(t, hw)), fmt.Sprintf("0-1 same-cpu %d", links); got != want {
			t.Errorf("%d links are %s", links, got)
		}
		if asked := m.Calls("test")["NVLinkActive"]; asked > 2*(max(links, devices.NVLinks)+1) {
			t.Errorf("%d links of 2 GPUs are %d questions", links, asked)
		}
		odd := devices.New(oddEnds{m.Open(sim.Admin("odd"))}, devices.Options{})
		if n := linked(t, odd); linkTable(n) != "0-1 same-cpu 0" || n.GPUs[0].Fault != nil {
			t.Errorf("%d links with ends of an unknown kind are %s", links, linkTable(n))
		}
	}
}

// oddEnds is a driver whose links end at things that came later.
type oddEnds struct{ devices.Driver }

func (oddEnds) NVLinkEnd(devices.GPUHandle, int) (devices.NVLinkEnd, error) { return 77, nil }
