// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package dra_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	resourceapi "k8s.io/api/resource/v1"

	"gpuslice/internal/agent"
	"gpuslice/internal/dra"
	"gpuslice/pkg/devices"
)

// P3: whatever is in the place of a GPU's link in /sys, and whatever its address, the slice keeps every device, each attribute is one
// that the API takes, and the GPU beside it has what it says.
func FuzzSysfsOfAGPU(f *testing.F) {
	f.Add("../../../devices/pci0000:00/0000:00:01.0/0000:65:00.0", "0000:65:00.0", byte(0))
	f.Add("../../../devices/pci0000:00/0000:65:00.0", "10000:65:00.0", byte(0))
	f.Add("../../../devices/pci"+strings.Repeat("x", 300)+"/0000:65:00.0", "0000:65:00.0", byte(0))
	f.Add("../../../devices/pci\xff\xfe/0000:65:00.0", "0000:65:00.0", byte(0))
	f.Add("/etc/passwd", "", byte(0))
	f.Add("0000:65:00.0", "../..", byte(0))
	f.Add("x", "0000:65:00.0", byte(1))
	f.Add("x", "\x00", byte(2))
	f.Fuzz(func(t *testing.T, target, pci string, kind byte) {
		root := t.TempDir()
		folder := filepath.Join(root, "bus/pci/devices")
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(folder, "0000:65:00.0")
		switch kind % 3 { // one that cannot be made is missing
		case 0:
			_ = os.Symlink(target, at)
		case 1:
			_ = os.Mkdir(at, 0o755)
		case 2:
			_ = os.WriteFile(at, []byte(target), 0o600)
		}
		if err := os.Symlink("../../../devices/pci0000:80/0000:80:01.0/0000:c0:00.0", filepath.Join(folder, "0000:c0:00.0")); err != nil {
			t.Fatal(err)
		}
		odd := devices.GPU{Minor: 0, UUID: "GPU-odd", PCI: pci, NUMA: -1}
		same := devices.GPU{Minor: 1, UUID: "GPU-same", PCI: "0000:65:00.0", NUMA: -1}
		good := devices.GPU{Minor: 2, UUID: "GPU-good", PCI: "0000:c0:00.0", NUMA: 1}
		view := &agent.View{}
		for _, g := range []devices.GPU{odd, same, good} {
			view.Devices = append(view.Devices, agent.Device{UUID: g.UUID, Name: g.Name(), GPU: g, API: agent.DRA, Replicas: 1})
		}
		found := map[string]resourceapi.Device{}
		for _, s := range dra.Slices(view, dra.SysfsRoots(root)) {
			for _, d := range s.Devices {
				found[d.Name] = d
				for name, a := range d.Attributes {
					if a.StringValue != nil && (*a.StringValue == "" || len(*a.StringValue) > resourceapi.DeviceAttributeMaxValueLength || !utf8.ValidString(*a.StringValue)) {
						t.Errorf("%s of %s is %q", name, d.Name, *a.StringValue)
					}
				}
			}
		}
		if len(found) != 3 {
			t.Errorf("%d devices of 3", len(found))
		}
		if got := found["gpu-2"].Attributes["resource.kubernetes.io/pcieRoot"].StringValue; got == nil || *got != "pci0000:80" {
			t.Errorf("the GPU beside it has PCIe root %v", got)
		}
		if _, has := found["gpu-1"].Attributes["resource.kubernetes.io/numaNode"]; has {
			t.Error("a GPU at no NUMA node has one")
		}
	})
}
