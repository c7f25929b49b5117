// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package drivertest_test

import (
	"os"
	"path/filepath"
	"testing"

	"gpuslice/pkg/devices"
)

// K16, P7: the library's own answers about GPUs that are no cards reach the adapter as they are: no memory of its own, a part of a GPU
// of the host, and an address with a wide domain, for which the kernel and the driver have two forms.
func TestGPUsThatAreNoCards(t *testing.T) {
	n := startNode(t, `
gpus:
- {model: gb10, pci: '000F:01:00.0', numa: 0, unsupported: [ReservedMemory, PersistenceMode]}
- {model: grid-a100d-40c, pci: '00010000:E1:00.0', numa: 1}
`)
	check(t, os.WriteFile(filepath.Join(n.paths.Proc, "meminfo"), []byte("MemTotal:  125511680 kB\n"), 0o600))
	host := devices.HostFiles{Proc: n.paths.Proc, Sys: n.paths.Sys}
	hw := devices.New(n.process("client", false).Driver(), devices.Options{NUMANode: host.NUMANode, SystemMemory: host.SystemMemory, Bound: host.Bound})
	node := must[devices.Node](t)(hw.Snapshot(t.Context()))
	if len(node.GPUs) != 2 {
		t.Fatalf("%d GPUs", len(node.GPUs))
	}
	for i, want := range []struct {
		pci              string
		memory           uint64
		unified, virtual bool
	}{{"000f:01:00.0", 122570, true, false}, {"10000:e1:00.0", 40960, false, true}} {
		g := node.GPUs[i]
		if g.Fault != nil || g.PCI != want.pci || g.NUMA != i || g.MemoryMiB != want.memory || g.Unified != want.unified || g.Virtual != want.virtual || g.IsMIGCapable() {
			t.Errorf("%+v, want %+v", g, want)
		}
	}
}

// P3: the kernel's list of what is bound to the driver is how a GPU that is pulled out, or put back, is noticed.
func TestGPUsComeAndGoUnderTheLibrary(t *testing.T) {
	n := startNode(t, "gpus: [{model: l40s, count: 2}]")
	host := devices.HostFiles{Proc: n.paths.Proc, Sys: n.paths.Sys}
	hw := devices.New(n.process("client", false).Driver(), devices.Options{Bound: host.Bound})
	healthy := func() (count int) {
		for _, g := range must[devices.Node](t)(hw.Snapshot(t.Context())).GPUs {
			if g.Fault == nil {
				count++
			}
		}
		return count
	}
	before := healthy()
	check(t, n.Machine().RemoveGPU(0), n.Sync())
	without := healthy()
	check(t, n.Machine().ReturnGPU(0, ""), n.Sync())
	if after := healthy(); before != 2 || without != 1 || after != 2 {
		t.Errorf("%d, then %d, then %d GPUs", before, without, after)
	}
}
