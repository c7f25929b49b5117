// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices

import (
	"cmp"
	"errors"
	"fmt"

	"gpuslice/pkg/mig"
)

// architectureAmpere is NVML_DEVICE_ARCH_AMPERE: the one generation whose MIG mode takes effect with a reset only.
const architectureAmpere = 7

func (h *Hardware) readGPU(pci string, known reading, glance bool) (GPU, error) {
	handle, err := h.driver.GPUByBusID(longBusID(pci))
	if err != nil {
		return GPU{}, fmt.Errorf("open GPU %s: %w", pci, err)
	}
	g, err := h.identify(handle, pci, known)
	if err != nil {
		return GPU{}, fmt.Errorf("GPU %s: %w", pci, err)
	}
	if g.Unsupported != nil {
		return g, nil
	}
	g.NUMA = h.opts.NUMANode(pci)
	if g.Signs, err = readSigns(h.driver, handle); err != nil {
		return GPU{}, fmt.Errorf("GPU %s: read signs of health: %w", pci, err)
	}
	if err := h.readMemory(handle, &g, known); err != nil {
		return GPU{}, fmt.Errorf("GPU %s: read memory: %w", pci, err)
	}
	if g.MIG = (mig.State{GPU: g.Name()}); g.Virtual { // how it is cut is its host's, whatever the driver shows of it in here
		return g, nil
	}
	return h.readMIG(handle, g, known, glance)
}

// identify says what the GPU is. What cannot change while a session sees one UUID is asked for once.
func (h *Hardware) identify(handle GPUHandle, pci string, known reading) (GPU, error) {
	if known.UUID != "" && known.Unsupported == nil && known.session == h.gate.session() {
		uuid, err := h.driver.UUID(handle)
		minor, minorErr := h.driver.Minor(handle) // with another one a container would get another GPU, so it is never taken for granted
		if err == nil && minorErr == nil && uuid == known.UUID && minor == known.Minor {
			return known.identity(), nil
		}
	}
	product, err := optional(h.driver.Name(handle))
	if err != nil {
		return GPU{}, fmt.Errorf("read name: %w", err)
	}
	if h.opts.Platforms.IsIntegrated(product) {
		return readIntegrated(h.driver, handle, GPU{PCI: pci, Product: product, Model: ModelOf(product), NUMA: -1}), nil
	}
	return readIdentity(h.driver, handle, product)
}

// isOfNow says that a reading is of this GPU and of the session that is open.
func (h *Hardware) isOfNow(known reading, uuid string) bool {
	return known.UUID == uuid && known.session == h.gate.session()
}

// identity is what readIdentity reads.
func (g GPU) identity() GPU {
	return GPU{
		UUID: g.UUID, PCI: g.PCI, Minor: g.Minor, Index: g.Index, NUMA: -1, Product: g.Product, Model: g.Model, PCIDevice: g.PCIDevice, PCISubsystem: g.PCISubsystem,
		Brand: g.Brand, Architecture: g.Architecture, ComputeMajor: g.ComputeMajor, ComputeMinor: g.ComputeMinor, Virtual: g.Virtual,
	}
}

// readIntegrated never fails: such a GPU may have no UUID or minor number, and is not handed out anyway.
func readIntegrated(d Driver, h GPUHandle, g GPU) GPU {
	g.Unsupported = integrated(g.Product)
	g.UUID, _ = d.UUID(h)
	var err error
	if g.Minor, err = d.Minor(h); err != nil {
		g.Minor = -1
	}
	if g.Index, err = d.Index(h); err != nil {
		g.Index = -1
	}
	g.MIG.GPU = g.Name()
	return g
}

// readMemory asks once in a session: what a GPU has does not change while somebody has it open.
func (h *Hardware) readMemory(handle GPUHandle, g *GPU, known reading) error {
	if h.isOfNow(known, g.UUID) && known.MemoryMiB > 0 && !known.Unified {
		g.MemoryMiB = known.MemoryMiB
		return nil
	}
	total, err := h.driver.Memory(handle)
	switch {
	case errors.Is(err, ErrNotSupported): // it has none of its own
		g.Unified, g.MemoryMiB = true, h.opts.SystemMemory()
		return nil
	case err != nil && !isAbsent(err):
		return err
	}
	// A GPU in MIG mode may keep its total from a client without the right to see it: then the last one seen is still true.
	g.MemoryMiB = cmp.Or(total>>20, known.MemoryMiB)
	return nil
}

func (h *Hardware) readMIG(handle GPUHandle, g GPU, known reading, glance bool) (GPU, error) {
	g.MIG.ModeNeedsReset = g.Architecture == architectureAmpere
	current, pending, err := h.driver.MIGMode(handle)
	if isAbsent(err) || errors.Is(err, ErrInvalidArgument) {
		return g, nil
	}
	if err != nil {
		return GPU{}, fmt.Errorf("%s: read MIG mode: %w", g.Name(), err)
	}
	if g.ProfilesUnread = glance && !current && !pending && !known.IsMIGCapable(); g.ProfilesUnread {
		return g, nil
	}
	return h.readProfiles(handle, g, current, pending, known)
}

func (h *Hardware) readProfiles(handle GPUHandle, g GPU, current, pending bool, known reading) (GPU, error) {
	var err error
	if g.Geometry, err = h.geometryOf(handle, g, current, known); errors.Is(err, ErrNoPermission) && !current {
		return g, nil // it is whole, and whole it can be used
	} else if err != nil {
		return GPU{}, fmt.Errorf("%s: read MIG profiles: %w", g.Name(), err)
	}
	if !g.IsMIGCapable() {
		return g, nil
	}
	if g.MIG.Mode.Current, g.MIG.Mode.Pending = current, pending; !current {
		return g, nil
	}
	if g.MIG.Instances, err = readInstances(h.driver, handle, g.Geometry); err != nil {
		return GPU{}, fmt.Errorf("%s: %w", g.Name(), err)
	}
	return g, nil
}

// readIdentity reads what every GPU must have (UUID, bus id) and, as far as the driver says it, the rest.
func readIdentity(d Driver, h GPUHandle, product string) (GPU, error) {
	g := GPU{Product: product, Model: ModelOf(product)}
	var err error
	if g.UUID, err = d.UUID(h); err != nil {
		return g, fmt.Errorf("read UUID: %w", err)
	}
	bus, err := d.BusID(h)
	if err != nil {
		return g, fmt.Errorf("read PCI bus id: %w", err)
	}
	g.PCI = shortBusID(bus)
	g.NUMA = -1
	if g.Minor, err = d.Minor(h); err != nil {
		return g, fmt.Errorf("read minor number: %w", err)
	}
	if g.Index, err = d.Index(h); err != nil {
		return g, fmt.Errorf("read index: %w", err)
	}
	if g.PCIDevice, g.PCISubsystem, err = d.PCIDevice(h); err != nil && !isAbsent(err) {
		return g, fmt.Errorf("read PCI ids: %w", err)
	}
	if g.Brand, err = optional(d.Brand(h)); err != nil {
		return g, fmt.Errorf("read brand: %w", err)
	}
	if g.Architecture, err = optional(d.Architecture(h)); err != nil {
		return g, fmt.Errorf("read architecture: %w", err)
	}
	if g.ComputeMajor, g.ComputeMinor, err = d.ComputeCapability(h); err != nil && !isAbsent(err) {
		return g, fmt.Errorf("read compute capability: %w", err)
	}
	mode, err := optional(d.VirtualizationMode(h))
	if err != nil {
		return g, fmt.Errorf("read virtualization mode: %w", err)
	}
	g.Virtual = mode == VirtualizationVGPU
	return g, nil
}

// isAbsent says that the GPU or the driver does not have the thing asked for, which is neither zero nor an error (P7).
func isAbsent(err error) bool {
	return errors.Is(err, ErrNotSupported) || errors.Is(err, ErrFunctionNotFound) || errors.Is(err, ErrNoPermission)
}

// optional turns "the driver does not have it" into the zero value.
func optional[T any](v T, err error) (T, error) {
	if err != nil && isAbsent(err) {
		var zero T
		return zero, nil
	}
	return v, err
}
