// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"fmt"
	"slices"
	"strings"

	"gpuslice/pkg/devices"
)

// platformFound is what tells the platforms of machine files on a real host.
var platformFound = map[string]string{
	devices.Tegra: "/etc/nv_tegra_release",
	devices.WSL:   "/dev/dxg",
}

// defaultSystemMemory is what Linux counts of 128 GB.
const defaultSystemMemory = 122570

// Host is what the machine tells beside its driver.
type Host struct{ machine *Machine }

var _ devices.Platforms = Host{}

// Host returns the machine's host.
func (m *Machine) Host() Host { return Host{m} }

// Platform implements devices.Platforms.
func (h Host) Platform() devices.Platform {
	h.machine.mu.Lock()
	defer h.machine.mu.Unlock()
	return devices.Platform{Name: h.machine.platform, Found: platformFound[h.machine.platform]}
}

// IsIntegrated implements devices.Platforms by the tables of the models.
func (h Host) IsIntegrated(product string) bool {
	h.machine.mu.Lock()
	defer h.machine.mu.Unlock()
	for _, m := range h.machine.models {
		if m.name == product {
			return m.integrated
		}
	}
	return false
}

// SystemMemory is in MiB.
func (h Host) SystemMemory() uint64 {
	h.machine.mu.Lock()
	defer h.machine.mu.Unlock()
	return h.machine.systemMemoryMiB
}

// Bound lists the PCI addresses of the GPUs that the kernel has given to the driver, as the kernel writes them.
func (h Host) Bound() []string {
	h.machine.mu.Lock()
	defer h.machine.mu.Unlock()
	ids := []string{}
	for _, g := range h.machine.gpus {
		if h.machine.state == driverLoaded || h.machine.state == driverMismatched {
			ids = append(ids, kernelBusID(g.busID))
		}
	}
	slices.Sort(ids)
	return ids
}

// Load names the load of the driver; "" while it is not loaded.
func (h Host) Load() string {
	h.machine.mu.Lock()
	defer h.machine.mu.Unlock()
	if h.machine.state != driverLoaded && h.machine.state != driverMismatched {
		return ""
	}
	return fmt.Sprint(h.machine.loads)
}

// NUMANode is that of the GPU at a PCI address; -1 = there is none.
func (h Host) NUMANode(pci string) int {
	h.machine.mu.Lock()
	defer h.machine.mu.Unlock()
	g, ok := find(h.machine.gpus, func(g *gpu) bool { return kernelBusID(g.busID) == pci })
	if !ok {
		return devices.NoInstance
	}
	return g.numa
}

// kernelBusID writes "00000000:3B:00.0" as the kernel does, "0000:3b:00.0", with more digits of the domain where they are needed.
func kernelBusID(busID string) string {
	domain, rest, _ := strings.Cut(strings.ToLower(busID), ":")
	return strings.TrimLeft(domain[:4], "0") + domain[4:] + ":" + rest
}

// VirtualizationMode implements devices.Enumerator.
func (s *session) VirtualizationMode(h devices.GPUHandle) (int, error) {
	return ask(s, "VirtualizationMode", h, func(r ref) (int, error) {
		if r.gpu.model.virtual {
			return devices.VirtualizationVGPU, nil
		}
		return 0, nil
	}, gpuRef)
}
