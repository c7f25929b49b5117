// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package command

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuslice/internal/agent"
	"gpuslice/internal/features"
	"gpuslice/pkg/devices"
)

// put writes a file of /sys.
func put(t *testing.T, sys, name, text string) {
	t.Helper()
	path := filepath.Join(sys, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// L02, L08: what labels say beside the driver is read under --sys-root, of each GPU alone and once it is there; a configuration
// space that cannot be read costs the labels about vGPUs and no others.
func TestHostOfANode(t *testing.T) {
	sys := t.TempDir()
	f := &Flags{ProcRoot: t.TempDir(), SysRoot: sys}
	hosts := f.hosts()
	g := devices.GPU{UUID: "GPU-0", PCI: "0000:65:00.0", Product: "NVIDIA L4", Model: "l4"}
	v := &agent.View{Node: devices.Node{GPUs: []devices.GPU{g, {PCI: "0000:66:00.0"}}}, Targets: []agent.Target{{GPU: g}}}
	labels := func() map[string]string { return features.Of(v, hosts(v)).Over(nil) }
	want := labels()
	if want["nvidia.com/gpu.machine"] != "unknown" || want["nvidia.com/gpu.product"] != "NVIDIA-L4" {
		t.Fatalf("without files: %v", want)
	}
	put(t, sys, "class/dmi/id/product_name", "X9SRA/X9SRA-3\n")
	put(t, sys, "bus/pci/devices/0000:65:00.0/class", "0x030200\n")
	put(t, sys, "bus/pci/devices/0000:65:00.0/config", "\xde\x10 the first 64 bytes alone, as the kernel shows to everybody")
	maps.Copy(want, map[string]string{"nvidia.com/gpu.machine": "X9SRAX9SRA-3", "nvidia.com/gpu.mode": "compute"})
	if diff := cmp.Diff(want, labels()); diff != "" {
		t.Errorf("without configuration space (-want +got):\n%s", diff)
	}
	put(t, sys, "bus/pci/devices/0000:65:00.0/config", "\xde\x10"+string(make([]byte, 4094)))
	want["nvidia.com/vgpu.present"] = "false"
	if diff := cmp.Diff(want, labels()); diff != "" {
		t.Errorf("with everything (-want +got):\n%s", diff)
	}
	if err := os.RemoveAll(filepath.Join(sys, "bus")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, labels()); diff != "" {
		t.Errorf("after the GPU fell off the bus (-want +got):\n%s", diff)
	}
}
