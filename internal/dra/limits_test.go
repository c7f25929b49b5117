// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package dra_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"gpuslice/internal/agent"
	"gpuslice/internal/dra"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
	"gpuslice/pkg/mig"
)

// models are the GPUs that the simulator knows.
var models = []string{
	"a30-24gb", "a100-sxm4-40gb", "a100-sxm4-80gb", "h100-sxm5-80gb", "h100-pcie-80gb", "h100-nvl-94gb", "gh200-96gb",
	"gh200-144gb", "h200-sxm5-141gb", "b200-180gb", "gb200-186gb", "b300-269gb", "gb300-278gb", "l40s", "l4", "t4",
	"rtx-pro-6000-blackwell-se-96gb",
}

var (
	identifier = regexp.MustCompile(`^([a-z0-9.]{1,63}/)?[A-Za-z_][A-Za-z0-9_]{0,31}$`)
	version    = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)$`)
)

// The API server refuses a whole slice for one device that breaks a limit, so every slot of every model is tried.
func TestEverySlotOfEveryModelKeepsTheAPILimits(t *testing.T) {
	for _, model := range models {
		t.Run(model, func(t *testing.T) {
			machine, err := sim.Parse("1x" + model)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(machine.Close)
			node, err := devices.New(machine.Open(sim.Admin("test")), devices.Options{}).Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			g := node.GPUs[0]
			list := []agent.Device{whole(g)}
			for _, s := range g.Geometry.Slots() {
				inst := mig.Instance{Slot: s, UUID: "MIG-5d0d2b1c-9a1e-5b3c-8f7a-2c1d0e9f8a7b"}
				list = append(list, agent.Device{UUID: inst.UUID, Name: agent.MIGDeviceName(g, s), GPU: g, Instance: &inst})
			}
			v := viewOf(list...)
			v.Node = node
			published := dra.Slices(v, dra.SysfsRoots(sysfs(t)))
			if len(published) != 1 || len(published[0].Devices) != len(list) {
				t.Fatalf("%d devices in %d slices, want %d in one", len(published[0].Devices), len(published), len(list))
			}
			if n := len(published[0].Devices); n > 64 {
				t.Errorf("%d devices: one taint would break the slice", n)
			}
			checkSmallFirst(t, published[0].Devices[1:])
			for _, d := range published[0].Devices {
				checkLimits(t, d)
			}
		})
	}
}

func checkSmallFirst(t *testing.T, list []resourceapi.Device) {
	t.Helper()
	if !slices.IsSortedFunc(list, func(a, b resourceapi.Device) int {
		return strings.Compare((*a.Attributes["profile"].StringValue)[:1], (*b.Attributes["profile"].StringValue)[:1])
	}) {
		t.Errorf("a large profile stands before a small one: %v", asYAML(t, list))
	}
}

func checkLimits(t *testing.T, d resourceapi.Device) {
	t.Helper()
	if errs := validation.IsDNS1123Label(d.Name); len(errs) > 0 {
		t.Errorf("%s: %v", d.Name, errs)
	}
	if n := len(d.Attributes) + len(d.Capacity); n > resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
		t.Errorf("%s: %d attributes and capacities", d.Name, n)
	}
	for name, a := range d.Attributes {
		if !identifier.MatchString(string(name)) {
			t.Errorf("%s: attribute %q", d.Name, name)
		}
		if a.StringValue != nil && (len(*a.StringValue) > 64 || *a.StringValue == "") {
			t.Errorf("%s: %s is %q", d.Name, name, *a.StringValue)
		}
		if a.VersionValue != nil && !version.MatchString(*a.VersionValue) {
			t.Errorf("%s: %s is no version: %q", d.Name, name, *a.VersionValue)
		}
	}
	for name, c := range d.Capacity {
		if !identifier.MatchString(string(name)) || c.Value.Sign() < 0 {
			t.Errorf("%s: capacity %q is %s", d.Name, name, c.Value.String())
		}
	}
}
