// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package dra_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"

	"gpuslice/internal/agent"
	"gpuslice/internal/dra"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/health"
	"gpuslice/pkg/mig"
)

// h100 is a GPU as the driver describes it in the reference of the wire format.
func h100() devices.GPU {
	return devices.GPU{
		Minor: 0, UUID: "GPU-18db0e85-99e9-c746-8531-ffeb86328b39", Product: "NVIDIA H100 80GB HBM3", Model: "h100-sxm5-80gb",
		PCI: "0000:65:00.0", NUMA: 0, MemoryMiB: 81559, Brand: 14, Architecture: 9, ComputeMajor: 9, ComputeMinor: 0,
	}
}

func viewOf(list ...agent.Device) *agent.View {
	for i := range list {
		list[i].API = agent.DRA
	}
	return &agent.View{Node: devices.Node{DriverVersion: "580.126.09", CUDAVersion: 13000}, Devices: list}
}

func whole(g devices.GPU) agent.Device { return agent.Device{UUID: g.UUID, Name: g.Name(), GPU: g} }

func half() agent.Device {
	g := h100()
	p := mig.Profile{
		ID: 9, Name: "3g.40gb", ComputeSlices: 3, MemorySlices: 4, MemoryMiB: 40448,
		Engines: mig.Engines{SMs: 60, Copy: 3, Decoder: 3, JPEG: 3},
	}
	inst := mig.Instance{Slot: mig.Slot{Profile: p, Start: 4}, GI: 1, UUID: "MIG-5d0d2b1c-9a1e-5b3c-8f7a-2c1d0e9f8a7b"}
	return agent.Device{UUID: inst.UUID, Name: agent.MIGDeviceName(g, inst.Slot), GPU: g, Instance: &inst}
}

// sysfs is a tree in which the GPU hangs below the root complex pci0000:64.
func sysfs(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	device := filepath.Join(root, "devices/pci0000:64/0000:64:01.0/0000:65:00.0")
	bus := filepath.Join(root, "bus/pci/devices")
	for _, dir := range []string{device, bus} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../../../devices/pci0000:64/0000:64:01.0/0000:65:00.0", filepath.Join(bus, "0000:65:00.0")); err != nil {
		t.Fatal(err)
	}
	return root
}

// P9: what users' selectors are written against.
func TestWireFormat(t *testing.T) {
	for file, device := range map[string]agent.Device{"h100.yaml": whole(h100()), "3g.40gb.yaml": half()} {
		t.Run(file, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", file))
			if err != nil {
				t.Fatal(err)
			}
			var want resourceapi.Device
			if err := yaml.UnmarshalStrict(text, &want); err != nil {
				t.Fatal(err)
			}
			list := dra.Slices(viewOf(device), dra.SysfsRoots(sysfs(t)))
			if len(list) != 1 || len(list[0].Devices) != 1 {
				t.Fatalf("got %d slices: %+v", len(list), list)
			}
			if diff := cmp.Diff(asYAML(t, want), asYAML(t, list[0].Devices[0])); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func asYAML(t *testing.T, v any) string {
	t.Helper()
	text, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// P7: what is not known is not there; it costs neither the device nor the slice.
func TestUnknownIsAbsent(t *testing.T) {
	full := dra.Slices(viewOf(whole(h100())), dra.SysfsRoots(sysfs(t)))[0].Devices[0]
	for _, c := range []struct {
		name   string
		change func(g *devices.GPU, v *agent.View)
		absent resourceapi.QualifiedName
	}{
		{"no NUMA node", func(g *devices.GPU, _ *agent.View) { g.NUMA = -1 }, "resource.kubernetes.io/numaNode"},
		{"no memory, as with unified memory", func(g *devices.GPU, _ *agent.View) { g.MemoryMiB = 0 }, "memory"},
		{"no product name", func(g *devices.GPU, _ *agent.View) { g.Product = "" }, "productName"},
		{"a product name that the API would refuse", func(g *devices.GPU, _ *agent.View) { g.Product = strings.Repeat("x", 65) }, "productName"},
		{"a product name that is no text", func(g *devices.GPU, _ *agent.View) { g.Product = "NVIDIA \xff" }, "productName"},
		{"no architecture", func(g *devices.GPU, _ *agent.View) { g.Architecture = 0 }, "architecture"},
		{"no compute capability", func(g *devices.GPU, _ *agent.View) { g.ComputeMajor = 0 }, "cudaComputeCapability"},
		{"no CUDA version", func(_ *devices.GPU, v *agent.View) { v.Node.CUDAVersion = 0 }, "cudaDriverVersion"},
		{"no driver version", func(_ *devices.GPU, v *agent.View) { v.Node.DriverVersion = "" }, "driverVersion"},
		{"a driver version that is none", func(_ *devices.GPU, v *agent.View) { v.Node.DriverVersion = "580.65.06-rc1" }, "driverVersion"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := h100()
			v := viewOf()
			c.change(&g, v)
			v.Devices = viewOf(whole(g)).Devices
			got := dra.Slices(v, dra.SysfsRoots(sysfs(t)))[0].Devices[0]
			want := full.DeepCopy()
			delete(want.Attributes, c.absent)
			delete(want.Capacity, c.absent)
			if diff := cmp.Diff(asYAML(t, want), asYAML(t, got)); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("no PCIe root in sysfs", func(t *testing.T) {
		got := dra.Slices(viewOf(whole(h100())), dra.SysfsRoots(t.TempDir()))[0].Devices[0]
		if a, ok := got.Attributes["resource.kubernetes.io/pcieRoot"]; ok || len(got.Attributes) != len(full.Attributes)-1 {
			t.Errorf("pcieRoot %v among %d attributes", a, len(got.Attributes))
		}
	})
	t.Run("an address with a wide domain is none to the API", func(t *testing.T) {
		g := h100()
		g.PCI = "00010000:65:00.0"
		got := dra.Slices(viewOf(whole(g)), nil)[0].Devices[0]
		if a, ok := got.Attributes["resource.kubernetes.io/pciBusID"]; ok {
			t.Errorf("pciBusID %v", a)
		}
	})
}

func TestNumbersOfNVMLHaveTheirNames(t *testing.T) {
	for _, c := range []struct {
		attribute resourceapi.QualifiedName
		number    int
		want      string
	}{
		{"brand", 0, "Unknown"},
		{"brand", 2, "Tesla"},
		{"brand", 5, "GeForce"},
		{"brand", 12, "QuadroRTX"},
		{"brand", 16, "TitanRTX"},
		{"brand", 99, "Unknown"},
		{"brand", -1, "Unknown"},
		{"architecture", 6, "Turing"},
		{"architecture", 7, "Ampere"},
		{"architecture", 8, "Ada Lovelace"},
		{"architecture", 10, "Blackwell"},
		{"architecture", 13, "Rubin"},
		{"architecture", 0xffffffff, "Unknown"},
	} {
		g := h100()
		if c.attribute == "brand" {
			g.Brand = c.number
		} else {
			g.Architecture = c.number
		}
		got := dra.Slices(viewOf(whole(g)), nil)[0].Devices[0].Attributes[c.attribute].StringValue
		if got == nil || *got != c.want {
			t.Errorf("%s %d is %v, want %s", c.attribute, c.number, got, c.want)
		}
	}
}

func TestVersionsAreSemantic(t *testing.T) {
	for in, want := range map[string]string{
		"580.126.09": "580.126.9", "580.65.06": "580.65.6", "535.54": "535.54.0", "470": "470.0.0", "0.0.0": "0.0.0",
		"": "", "580.": "", "1.2.3.4": "", "580.65.06+x": "", "a.b.c": "", "-1.0.0": "", "580. 65": "", "99999999999.0.0": "",
	} {
		v := viewOf(whole(h100()))
		v.Node.DriverVersion = in
		got := ""
		if a, ok := dra.Slices(v, nil)[0].Devices[0].Attributes["driverVersion"]; ok {
			got = *a.VersionValue
		}
		if got != want {
			t.Errorf("driver version %q is published as %q, want %q", in, got, want)
		}
	}
}

// P3, P1: one taint on a GPU that does not answer, on every device of it and on no other; no device of the other API.
func TestSlicesByGPU(t *testing.T) {
	g0, g1, g2 := h100(), h100(), h100()
	g1.Minor, g1.PCI, g1.UUID = 1, "0000:9b:00.0", "GPU-1"
	g2.Minor, g2.PCI, g2.UUID = 2, "0000:18:00.0", "GPU-2"
	sick := whole(g1)
	sick.Fault = "lost"
	v := viewOf(whole(g0), sick, whole(g2))
	v.Devices[0].API = agent.DevicePlugin
	got := []string{}
	for i, s := range dra.Slices(v, nil) {
		for _, d := range s.Devices {
			line := fmt.Sprintf("%d %s", i, d.Name)
			for _, taint := range d.Taints {
				line += fmt.Sprintf(" %s=%q:%s", taint.Key, taint.Value, taint.Effect)
			}
			got = append(got, line)
		}
	}
	want := []string{"0 gpu-2", `1 gpu-1 gpu.nvidia.com/gpu-lost="":NoSchedule`} // gpu-2 is first on the bus
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The key of a taint says what kind of fault it is, its value which; a neighbour that waits for the reset has a key of its own.
func TestTaintsSayWhy(t *testing.T) {
	for _, tc := range []struct {
		name string
		set  func(*agent.Device)
		want string
	}{
		{"well", func(*agent.Device) {}, ""},
		{"does not answer now", func(d *agent.Device) { d.Fault = "driver answered UNKNOWN" }, "gpu.nvidia.com/gpu-lost="},
		{"lost", func(d *agent.Device) { d.Fault, d.Cause.Source = "lost", health.Unreachable }, "gpu.nvidia.com/gpu-lost="},
		{"XID", func(d *agent.Device) { d.Fault, d.Cause = "XID 95", health.Fault{Source: health.XID, XID: 95} }, "gpu.nvidia.com/xid=95"},
		{"recovery action", func(d *agent.Device) { d.Fault, d.Cause.Source = "r", health.Recovery }, "gpuslice.dev/unhealthy=recovery-action"},
		{"reported", func(d *agent.Device) { d.Fault, d.Cause.Source = "r", health.Reported }, "gpuslice.dev/unhealthy=reported"},
		{"neighbour", func(d *agent.Device) { d.Pending, d.Cause = "p", health.Fault{Source: health.XID, XID: 95} }, "gpuslice.dev/reset-pending="},
	} {
		d := whole(h100())
		tc.set(&d)
		got := ""
		for _, taint := range dra.Slices(viewOf(d), nil)[0].Devices[0].Taints {
			got += taint.Key + "=" + taint.Value
			if taint.Effect != resourceapi.DeviceTaintEffectNoSchedule {
				t.Errorf("%s: effect %s", tc.name, taint.Effect)
			}
		}
		if got != tc.want {
			t.Errorf("%s: taint %q, want %q", tc.name, got, tc.want)
		}
	}
}

// A pool with a name twice is refused whole: a new GPU may have the minor number of one that is gone.
func TestNameIsPublishedOnce(t *testing.T) {
	gone, fresh := whole(h100()), whole(h100())
	gone.Fault = "the driver no longer lists it"
	fresh.GPU.PCI, fresh.GPU.UUID, fresh.UUID = "0000:66:00.0", "GPU-new", "GPU-new"
	for _, list := range [][]agent.Device{{gone, fresh}, {fresh, gone}} {
		got := dra.Slices(viewOf(list...), nil)
		if len(got) != 1 || len(got[0].Devices) != 1 || *got[0].Devices[0].Attributes["uuid"].StringValue != "GPU-new" {
			t.Errorf("got %s", asYAML(t, got))
		}
	}
}

func TestEmptyPoolHasOneEmptySlice(t *testing.T) {
	p := dra.Pool(dra.Slices(viewOf(), nil))
	if len(p.Slices) != 1 || len(p.Slices[0].Devices) != 0 {
		t.Errorf("got %+v", p.Slices)
	}
}
