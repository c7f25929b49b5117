// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gpuslice/pkg/devices"
)

// DriverVersion implements devices.Enumerator.
func (s *session) DriverVersion() (version string, err error) {
	err = s.call("DriverVersion", nowhere, func() error {
		version = s.machine.version
		return nil
	})
	return version, err
}

// CUDADriverVersion implements devices.Enumerator.
func (s *session) CUDADriverVersion() (version int, err error) {
	err = s.call("CUDADriverVersion", nowhere, func() error {
		version = s.machine.cudaVersion
		return nil
	})
	return version, err
}

// GPUCount implements devices.Enumerator.
func (s *session) GPUCount() (count int, err error) {
	err = s.call("GPUCount", nowhere, func() error {
		count = len(s.gpus)
		return nil
	})
	return count, err
}

// GPUByIndex implements devices.Enumerator.
func (s *session) GPUByIndex(index int) (devices.GPUHandle, error) {
	return s.lookUp("GPUByIndex", devices.ErrInvalidArgument, func() int {
		if index < 0 || index >= len(s.gpus) {
			return -1
		}
		return index
	})
}

// GPUByBusID implements devices.Enumerator. Like the driver it takes short domains and lower case too.
func (s *session) GPUByBusID(busID string) (devices.GPUHandle, error) {
	full, ok := canonicalBusID(busID)
	answer := devices.ErrNotFound
	if !ok {
		answer = devices.ErrInvalidArgument
	}
	return s.lookUp("GPUByBusID", answer, func() int {
		return slices.IndexFunc(s.gpus, func(g *gpu) bool { return g.busID == full })
	})
}

// lookUp takes hold of the GPU at the position that search finds; missing is the answer when it finds none.
func (s *session) lookUp(name string, missing devices.Code, search func() int) (h devices.GPUHandle, err error) {
	where := func() *gpu {
		if i := search(); i >= 0 {
			return s.gpus[i]
		}
		return nil
	}
	err = s.call(name, where, func() error {
		g := where()
		switch {
		case g == nil:
			return missing
		case g.gone():
			return devices.ErrLost
		}
		h = s.gpuHandle(g)
		return nil
	})
	return h, err
}

// GPUByUUID implements devices.Enumerator. The driver searches through every GPU, so one that is lost fails all look-ups.
func (s *session) GPUByUUID(uuid string) (h devices.GPUHandle, err error) {
	where := func() *gpu {
		g, _ := s.findUUID(uuid)
		return g
	}
	err = s.call("GPUByUUID", where, func() error {
		if slices.ContainsFunc(s.gpus, (*gpu).gone) {
			return devices.ErrLost
		}
		g, ci := s.findUUID(uuid)
		switch {
		case ci != nil:
			h = s.migHandle(ci)
		case g != nil:
			h = s.gpuHandle(g)
		default:
			return devices.ErrNotFound
		}
		return nil
	})
	return h, err
}

// findUUID finds the GPU, or the MIG device and its GPU, of that name.
func (s *session) findUUID(uuid string) (*gpu, *computeInstance) {
	for _, g := range s.gpus {
		if g.uuid == uuid {
			return g, nil
		}
		if ci, ok := find(g.migDevices(), func(ci *computeInstance) bool { return ci.uuid == uuid }); ok {
			return g, ci
		}
	}
	return nil, nil
}

// Index implements devices.Enumerator; for a MIG device it is the index under its GPU.
func (s *session) Index(h devices.GPUHandle) (index int, err error) {
	return ask(s, "Index", h, func(r ref) (int, error) {
		if r.kind == migRef {
			return slices.Index(r.gpu.migDevices(), r.ci), nil
		}
		return slices.Index(s.gpus, r.gpu), nil
	}, gpuRef, migRef)
}

// Minor implements devices.Enumerator.
func (s *session) Minor(h devices.GPUHandle) (int, error) {
	return ask(s, "Minor", h, func(r ref) (int, error) { return r.gpu.minor, nil }, gpuRef)
}

// UUID implements devices.Enumerator.
func (s *session) UUID(h devices.GPUHandle) (string, error) {
	return ask(s, "UUID", h, func(r ref) (string, error) {
		if r.kind == migRef {
			return r.ci.uuid, nil
		}
		return r.gpu.uuid, nil
	}, gpuRef, migRef)
}

// Name implements devices.Enumerator; a MIG device is called after its GPU and its profile.
func (s *session) Name(h devices.GPUHandle) (string, error) {
	return ask(s, "Name", h, func(r ref) (string, error) {
		if r.kind == migRef {
			return r.gpu.model.name + " MIG " + r.gi.row.Name, nil
		}
		return r.gpu.model.name, nil
	}, gpuRef, migRef)
}

// BusID implements devices.Enumerator.
func (s *session) BusID(h devices.GPUHandle) (string, error) {
	return ask(s, "BusID", h, func(r ref) (string, error) { return r.gpu.busID, nil }, gpuRef)
}

// PCIDevice implements devices.Enumerator.
func (s *session) PCIDevice(h devices.GPUHandle) (device, subsystem uint32, err error) {
	ids, err := ask(s, "PCIDevice", h, func(r ref) ([2]uint32, error) { return [2]uint32{r.gpu.model.pciID, r.gpu.subsystem}, nil }, gpuRef)
	return ids[0], ids[1], err
}

// Brand implements devices.Enumerator.
func (s *session) Brand(h devices.GPUHandle) (int, error) {
	return ask(s, "Brand", h, func(r ref) (int, error) { return r.gpu.model.brand, nil }, gpuRef)
}

// Architecture implements devices.Enumerator.
func (s *session) Architecture(h devices.GPUHandle) (int, error) {
	return ask(s, "Architecture", h, func(r ref) (int, error) { return r.gpu.model.architecture, nil }, gpuRef)
}

// ComputeCapability implements devices.Enumerator.
func (s *session) ComputeCapability(h devices.GPUHandle) (major, minor int, err error) {
	m, err := ask(s, "ComputeCapability", h, func(r ref) (model, error) { return r.gpu.model, nil }, gpuRef)
	return m.ccMajor, m.ccMinor, err
}

// Memory implements devices.Enumerator. The total of a GPU in MIG mode concerns all its instances, so it needs mig/monitor.
func (s *session) Memory(h devices.GPUHandle) (uint64, error) {
	return ask(s, "Memory", h, func(r ref) (uint64, error) {
		switch {
		case r.kind == migRef:
			return r.gi.row.MemoryMiB << 20, nil
		case r.gpu.mig && !s.client.mayMonitor():
			return 0, devices.ErrNoPermission
		case r.gpu.model.noMemory:
			return 0, devices.ErrNotSupported
		}
		return r.gpu.model.memoryMiB << 20, nil
	}, gpuRef, migRef)
}

// ask answers a question about what a handle names.
func ask[T any](s *session, name string, h devices.GPUHandle, answer func(ref) (T, error), kinds ...refKind) (out T, err error) {
	err = s.call(name, s.on(h), func() error {
		r, err := s.resolve(uint64(h), kinds...)
		if err != nil {
			return err
		}
		out, err = answer(r)
		return err
	})
	return out, err
}

var busIDPattern = regexp.MustCompile(`^([0-9A-Fa-f]{1,8}):([0-9A-Fa-f]{1,2}):([0-9A-Fa-f]{1,2})\.([0-7])$`)

// canonicalBusID writes "0000:3b:00.0" as the driver prints it: "00000000:3B:00.0".
func canonicalBusID(busID string) (string, bool) {
	parts := busIDPattern.FindStringSubmatch(busID)
	if parts == nil {
		return "", false
	}
	domain, err := strconv.ParseUint(parts[1], 16, 32)
	if err != nil {
		return "", false
	}
	return fmt.Sprintf("%08X:%02s:%02s.%s", domain, strings.ToUpper(parts[2]), strings.ToUpper(parts[3]), parts[4]), true
}
