// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices_test

import (
	"errors"
	"strings"
	"testing"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
)

// stubborn is a driver that answers success and does something else.
type stubborn struct {
	devices.Driver
	hard uint64
}

func (s stubborn) SetMemoryLimits(gpu devices.GPUHandle, cgroup string, soft, _ uint64) error {
	return s.Driver.SetMemoryLimits(gpu, cgroup, soft, s.hard)
}

// P4: a limit is set when it was read back, and one that nobody set is no limit.
func TestMemoryLimit(t *testing.T) {
	m, err := sim.ParseYAML([]byte("driver: {version: 615.28.01}\ngpus: [{model: l40s, reservedMiB: 68}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	hw, cgroup := open(m), t.TempDir()
	pci := snapshot(t, hw).GPUs[0].PCI
	if got, err := hw.ReservedMemory(t.Context(), pci); err != nil || got != 68<<20 {
		t.Errorf("reserved are %d bytes, %v", got, err)
	}
	if got, err := hw.MemoryLimit(t.Context(), pci, cgroup); err != nil || got != devices.NoMemoryLimit {
		t.Errorf("limit before one is set: %d, %v", got, err)
	}
	if err := hw.SetMemoryLimit(t.Context(), pci, cgroup, 5<<30); err != nil {
		t.Error(err)
	}
	if got, err := hw.MemoryLimit(t.Context(), pci, cgroup); err != nil || got != 5<<30 {
		t.Errorf("limit is %d, %v", got, err)
	}
	list, err := m.MemoryLimits(0)
	if err != nil || len(list) != 1 || list[0] != (sim.MemoryLimit{Cgroup: cgroup, Hard: 5 << 30}) {
		t.Errorf("the machine has %+v, %v", list, err)
	}
	liar := devices.New(stubborn{m.Open(sim.Admin("liar")), 4 << 30}, devices.Options{})
	if err := liar.SetMemoryLimit(t.Context(), pci, cgroup, 5<<30); err == nil || !strings.Contains(err.Error(), "4294967296") {
		t.Errorf("a driver that sets something else: %v", err)
	}
	if _, err := hw.MemoryLimit(t.Context(), pci, cgroup+"/none"); !errors.Is(err, devices.ErrOperatingSystem) {
		t.Errorf("a cgroup that is not there: %v", err)
	}
}
