// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
)

// A glance asks nobody how it can be cut, says so of whom it matters for, and is otherwise what a whole look is.
func TestGlance(t *testing.T) {
	m := machineFile(t, "gpus:\n- {model: h100-sxm5-80gb}\n- {model: h100-sxm5-80gb, instances: [3g.40gb@4]}\n- {model: l40s}\n- {model: a100-sxm4-40gb, pending: true}\n")
	hw := open(m)
	glance, err := hw.Glance(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	unread, capable := []bool{}, []bool{}
	for _, g := range glance.GPUs {
		unread, capable = append(unread, g.ProfilesUnread), append(capable, g.IsMIGCapable())
	}
	if diff := cmp.Diff([]bool{true, false, false, false}, unread); diff != "" {
		t.Errorf("profiles unread: only those of the first are of no use yet (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]bool{false, true, false, true}, capable); diff != "" {
		t.Errorf("known to be capable of MIG (-want +got):\n%s", diff)
	}
	whole := snapshot(t, hw)
	if g := whole.GPUs[0]; g.ProfilesUnread || !g.IsMIGCapable() {
		t.Errorf("after a whole look: %v", g)
	}
	glance.GPUs[0].ProfilesUnread, glance.GPUs[0].Geometry = false, whole.GPUs[0].Geometry
	if diff := cmp.Diff(lines(whole), lines(glance)); diff != "" {
		t.Errorf("a glance sees something else (-whole +glance):\n%s", diff)
	}
	if again, err := hw.Glance(t.Context()); err != nil || again.GPUs[0].ProfilesUnread {
		t.Errorf("what is known is not forgotten at a glance: %v, %v", again.GPUs[0], err)
	}
}

// What a GPU is cannot change while a session sees its UUID: it is asked once, and anew when another GPU has its address.
func TestIdentityIsAskedOnce(t *testing.T) {
	m := machine(t, "2xl40s")
	hw := open(m)
	for range 3 {
		snapshot(t, hw)
	}
	for _, call := range []string{"Name", "Brand", "Architecture", "ComputeCapability", "PCIDevice", "VirtualizationMode"} {
		if n := m.Calls("test")[call]; n != 2 {
			t.Errorf("%s was called %d times for 2 GPUs in one session", call, n)
		}
	}
	if n := m.Calls("test")["UUID"]; n < 6 {
		t.Errorf("UUID was called %d times in 3 looks at 2 GPUs; nobody notices when a GPU is exchanged", n)
	}
}

// P3: another GPU at the address of one that was pulled out is read as what it is.
func TestExchangedGPU(t *testing.T) {
	m := machine(t, "2xl40s")
	bound := []string{"before"}
	hw := devices.New(m.Open(sim.Admin("test")), devices.Options{Bound: func() []string { return bound }})
	before := snapshot(t, hw)
	if err := m.RemoveGPU(0); err != nil {
		t.Fatal(err)
	}
	if _, err := m.AddGPU("h100-sxm5-80gb", "00000000:"+strings.TrimPrefix(before.GPUs[0].PCI, "0000:")); err != nil {
		t.Fatal(err)
	}
	bound = []string{"after"} // the kernel says so
	now := snapshot(t, hw)
	at := slices.IndexFunc(now.GPUs, func(g devices.GPU) bool { return g.PCI == before.GPUs[0].PCI })
	if at < 0 || now.GPUs[at].UUID == before.GPUs[0].UUID || now.GPUs[at].Model != "h100-sxm5-80gb" {
		t.Errorf("at %s there is\n%s", before.GPUs[0].PCI, lines(now))
	}
}
