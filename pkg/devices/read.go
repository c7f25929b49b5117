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
	if g.Minor, err = h.driver.Minor(handle); err != nil {
		return GPU{}, fmt.Errorf("GPU %s: read minor number: %w", pci, err)
	}
	if g.Index, err = h.driver.Index(handle); err != nil {
		return GPU{}, fmt.Errorf("GPU %s: read index: %w", pci, err)
	}
	g.NUMA = h.opts.NUMANode(pci)
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
		if uuid, err := h.driver.UUID(handle); err == nil && uuid == known.UUID {
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

// identity is what readIdentity reads.
func (g GPU) identity() GPU {
	return GPU{
		UUID: g.UUID, PCI: g.PCI, NUMA: -1, Product: g.Product, Model: g.Model, PCIDevice: g.PCIDevice, PCISubsystem: g.PCISubsystem,
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

func (h *Hardware) readMemory(handle GPUHandle, g *GPU, known reading) error {
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
	return h.readProfiles(handle, g, current, known)
}

func (h *Hardware) readProfiles(handle GPUHandle, g GPU, current bool, known reading) (GPU, error) {
	var err error
	if g.Geometry, err = h.geometryOf(handle, g, current, known); errors.Is(err, ErrNoPermission) && !current {
		return g, nil // it is whole, and whole it can be used
	} else if err != nil {
		return GPU{}, fmt.Errorf("%s: read MIG profiles: %w", g.Name(), err)
	}
	if !g.IsMIGCapable() {
		return g, nil
	}
	if g.MIG, err = readCut(h.driver, handle, g.Geometry, g.MIG); err != nil {
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

// readCut reads mode and instances of a GPU that can be cut.
func readCut(d Driver, h GPUHandle, g mig.Geometry, state mig.State) (mig.State, error) {
	var err error
	state.Mode.Current, state.Mode.Pending, err = d.MIGMode(h)
	if err != nil {
		return state, fmt.Errorf("read MIG mode: %w", err)
	}
	state.Instances = nil
	if !state.Mode.Current {
		return state, nil
	}
	found, err := migDevices(d, h)
	if err != nil {
		return state, err
	}
	for _, o := range g.Offers() {
		gis, err := d.GIs(h, o.Profile.ID)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return state, fmt.Errorf("list GPU instances of %s: %w", o.Profile, err)
		}
		for _, gi := range gis {
			inst, err := readInstance(d, gi, o.Profile, found)
			if err != nil {
				return state, err
			}
			state.Instances = append(state.Instances, inst)
		}
	}
	return state, nil
}

// instanceIDs is how the driver ties a MIG device to its instances.
type instanceIDs struct{ gi, ci int }

// migDevice is what the driver says of a MIG device.
type migDevice struct {
	uuid  string
	index int
}

// migDevices maps instance ids to MIG devices. It is only a map: which instances exist is read from the GPU instances,
// because one without compute instance has no MIG device.
func migDevices(d Driver, h GPUHandle) (map[instanceIDs]migDevice, error) {
	n, err := d.MaxMIGDevices(h)
	if err != nil {
		return nil, fmt.Errorf("read number of MIG devices: %w", err)
	}
	found := map[instanceIDs]migDevice{}
	for i := range n {
		device, err := d.MIGDevice(h, i)
		if errors.Is(err, ErrNotFound) || errors.Is(err, ErrInvalidArgument) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("open MIG device %d: %w", i, err)
		}
		gi, ci, err := d.MIGDeviceIDs(device)
		if err != nil {
			return nil, fmt.Errorf("read ids of MIG device %d: %w", i, err)
		}
		uuid, err := d.UUID(device)
		if err != nil {
			return nil, fmt.Errorf("read UUID of MIG device %d: %w", i, err)
		}
		found[instanceIDs{gi, ci}] = migDevice{uuid, i}
	}
	return found, nil
}

// readInstance reads one GPU instance and decides whether one compute instance fills it.
func readInstance(d Driver, gi GIHandle, p mig.Profile, found map[instanceIDs]migDevice) (mig.Instance, error) {
	info, err := d.GIInfo(gi)
	if err != nil {
		return mig.Instance{}, fmt.Errorf("read GPU instance of %s: %w", p, err)
	}
	inst := mig.Instance{Slot: mig.Slot{Profile: p, Start: info.Placement.Start}, GI: info.ID, CI: -1, Index: -1}
	cis, err := computeInstances(d, gi)
	if err != nil {
		return inst, fmt.Errorf("%s: %w", inst.Slot, err)
	}
	for _, ci := range cis {
		if ci.slices != p.ComputeSlices {
			inst.Partial = true
		}
		inst.CI = ci.info.ID
		if device, ok := found[instanceIDs{info.ID, ci.info.ID}]; ok {
			inst.UUID, inst.Index = device.uuid, device.index
		}
	}
	return inst, nil
}

type computeInstance struct {
	handle CIHandle
	info   CIInfo
	slices int
}

func computeInstances(d Driver, gi GIHandle) ([]computeInstance, error) {
	all := []computeInstance{}
	for enum := range CIProfileEnums {
		p, err := d.CIProfile(gi, enum)
		if errors.Is(err, ErrNotSupported) || errors.Is(err, ErrInvalidArgument) || errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read compute instance profile %d: %w", enum, err)
		}
		handles, err := d.CIs(gi, p.ID)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return nil, fmt.Errorf("list compute instances: %w", err)
		}
		for _, h := range handles {
			info, err := d.CIInfo(h)
			if err != nil {
				return nil, fmt.Errorf("read compute instance: %w", err)
			}
			all = append(all, computeInstance{handle: h, info: info, slices: p.Slices})
		}
	}
	return all, nil
}
