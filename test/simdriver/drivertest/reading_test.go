// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package drivertest_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
	"gpuslice/pkg/mig"
	"gpuslice/test/simdriver/library"
)

// everyModel is a machine with one GPU of each model.
func everyModel() string {
	var b strings.Builder
	b.WriteString("gpus:\n")
	for _, model := range sim.Models() {
		b.WriteString("- {model: " + model + "}\n")
	}
	return b.String()
}

// snapshot reads a whole node through the adapter's upper half.
func snapshot(t *testing.T, d devices.Driver) devices.Node {
	t.Helper()
	hw := devices.New(d, devices.Options{})
	n := must[devices.Node](t)(hw.Snapshot(t.Context()))
	check(t, hw.Close(t.Context()))
	for _, g := range n.GPUs {
		if g.Fault != nil {
			t.Errorf("%s: %v", g.Name(), g.Fault)
		}
	}
	return n
}

// What comes through library and adapter is what the machine says without them.
func TestTheAdapterReadsTheWholeMachine(t *testing.T) {
	for _, tt := range []struct{ name, why, machine string }{
		{"mixed", "cut, not cut, and not to be cut", mixed},
		{"models", "every profile of every model, with the driver's names", everyModel()},
		{"nameless", "drivers before names", "driver: {profileNames: false}\n" + mixed},
		{
			"numbered", "minors that are no indexes, domains that need more digits",
			"gpus: [{model: a30-24gb, minor: 7, pci: '00010000:3B:00.0', numa: 1}, {model: t4, minor: 3, pci: '0000:1A:00.0'}]",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			direct, err := sim.ParseYAML([]byte(tt.machine))
			check(t, err)
			t.Cleanup(direct.Close)
			want := snapshot(t, direct.Open(sim.Admin("direct")))
			got := snapshot(t, startNode(t, tt.machine).process("client", false).Driver())
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(mig.Geometry{})); diff != "" {
				t.Errorf("%s: (-machine +library):\n%s", tt.why, diff)
			}
		})
	}
}

// With the library of a driver before MIG, GPUs are whole, and the process lives.
func TestAnOldLibraryHasNoMIG(t *testing.T) {
	n := startAged(t, mixed, library.Old)
	d := n.process("client", false).Driver()
	node := snapshot(t, d)
	if len(node.GPUs) != 4 {
		t.Fatalf("%d GPUs", len(node.GPUs))
	}
	for i, g := range node.GPUs {
		want := n.gpu(i)
		if g.UUID != want.UUID || g.Minor != want.Minor || g.Product != want.Product || g.MemoryMiB == 0 {
			t.Errorf("GPU %d is %+v, want %+v", i, g, want)
		}
		if g.IsMIGCapable() || g.MIG.Mode.Current || len(g.MIG.Instances) > 0 {
			t.Errorf("%s has MIG", g)
		}
	}
}

// Every call of the seam, whatever it answers, leaves the process alive on an old library.
func TestNoCallDiesOfAMissingSymbol(t *testing.T) {
	n := startAged(t, mixed, library.Old)
	check(t, n.Machine().StartProcess(0, sim.Process{PID: 4711, GI: devices.NoInstance, CI: devices.NoInstance}))
	d, _ := n.opened()
	gpu := must[devices.GPUHandle](t)(d.GPUByIndex(0))
	answers := map[string]error{}
	_, answers["Brand"] = d.Brand(gpu)
	_, answers["Architecture"] = d.Architecture(gpu)
	_, _, answers["ComputeCapability"] = d.ComputeCapability(gpu)
	_, _, answers["MIGMode"] = d.MIGMode(gpu)
	_, answers["SetMIGMode"] = d.SetMIGMode(gpu, true)
	_, answers["GIProfile"] = d.GIProfile(gpu, 0)
	_, answers["GIPlacements"] = d.GIPlacements(gpu, 0)
	_, answers["GIs"] = d.GIs(gpu, 0)
	_, answers["CreateGI"] = d.CreateGI(gpu, 0, devices.Placement{})
	_, answers["MaxMIGDevices"] = d.MaxMIGDevices(gpu)
	_, answers["MIGDevice"] = d.MIGDevice(gpu, 0)
	_, _, answers["MIGDeviceIDs"] = d.MIGDeviceIDs(gpu)
	list, err := d.Processes(gpu, devices.ComputeProcess)
	answers["Processes"] = err
	_, answers["Processes of MPS"] = d.Processes(gpu, devices.MPSProcess)
	_, answers["EventTypes"] = d.EventTypes(gpu)
	_, answers["ReservedMemory"] = d.ReservedMemory(gpu)
	_, answers["MemoryLimits"] = d.MemoryLimits(gpu, "/")
	answers["SetMemoryLimits"] = d.SetMemoryLimits(gpu, "/", 0, devices.NoMemoryLimit)
	absent := devices.ErrFunctionNotFound
	want := map[string]error{
		"Brand": nil, "ComputeCapability": nil, "Processes": nil, "EventTypes": nil,
		"Architecture": absent, "MIGMode": absent, "SetMIGMode": absent, "GIProfile": absent, "GIPlacements": absent, "GIs": absent,
		"CreateGI": absent, "MaxMIGDevices": absent, "MIGDevice": absent, "MIGDeviceIDs": absent, "Processes of MPS": absent,
		"ReservedMemory": absent, "MemoryLimits": absent, "SetMemoryLimits": absent,
	}
	if diff := cmp.Diff(want, answers, cmpopts.EquateErrors()); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]devices.Process{{PID: 4711, GI: devices.NoInstance, CI: devices.NoInstance}}, list); diff != "" {
		t.Errorf("processes (-want +got):\n%s", diff)
	}
}

// An event of an old library concerns the GPU as a whole, not instance 0.
func TestEventsOfAnOldLibraryHaveNoInstance(t *testing.T) {
	n := startAged(t, mixed, library.Old)
	d, _ := n.opened()
	gpu := must[devices.GPUHandle](t)(d.GPUByIndex(0))
	set := must[devices.EventSet](t)(d.NewEventSet())
	check(t, set.Register(gpu, devices.EventXID), n.Machine().XID(0, 79, devices.NoInstance, devices.NoInstance))
	got := must[devices.Event](t)(set.Wait(10 * time.Second))
	want := devices.Event{GPU: gpu, Type: devices.EventXID, Data: 79, GI: devices.NoInstance, CI: devices.NoInstance}
	if got != want {
		t.Errorf("event is %+v, want %+v", got, want)
	}
}

// The layout that the upper half makes through the library is the one that the machine has.
func TestTheUpperHalfCutsThroughTheLibrary(t *testing.T) {
	n := startNode(t, "gpus: [{model: h100-sxm5-80gb, mig: true}]")
	hw := devices.New(n.process("client", false).Driver(), devices.Options{})
	g := must[devices.Node](t)(hw.Snapshot(t.Context())).GPUs[0]
	i := slices.IndexFunc(g.Geometry.Offers(), func(o mig.Offer) bool { return o.Profile.Name == "3g.40gb" })
	slot := mig.Slot{Profile: g.Geometry.Offers()[i].Profile, Start: 4}
	check(t, hw.On(g.PCI).Create(t.Context(), slot))
	if got, want := n.Machine().Dump(), "gpu-0 h100-sxm5-80gb mig=on [3g.40gb@4]\n"; got != want {
		t.Errorf("machine is %q, want %q", got, want)
	}
	made := must[devices.Node](t)(hw.Snapshot(t.Context())).GPUs[0].MIG.Instances
	if len(made) != 1 || made[0].UUID != n.gpu(0).Instances[0].UUID {
		t.Fatalf("instances are %+v, want %+v", made, n.gpu(0).Instances)
	}
	check(t, hw.On(g.PCI).Destroy(t.Context(), made[0]))
	if got, want := n.Machine().Dump(), "gpu-0 h100-sxm5-80gb mig=on []\n"; got != want {
		t.Errorf("machine is %q, want %q", got, want)
	}
}
