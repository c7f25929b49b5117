// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package remote

import (
	"encoding/json"

	"gpuslice/pkg/devices"
)

// driver has the methods of devices.Driver, one to one.
type driver struct{ *Process }

var _ devices.Driver = driver{}

func (d driver) Init() error     { return d.invoke(0, "Init", nil) }
func (d driver) Shutdown() error { return d.invoke(0, "Shutdown", nil) }

func (d driver) DriverVersion() (string, error)  { return ask[string](d, "DriverVersion") }
func (d driver) CUDADriverVersion() (int, error) { return ask[int](d, "CUDADriverVersion") }
func (d driver) GPUCount() (int, error)          { return ask[int](d, "GPUCount") }

func (d driver) GPUByIndex(index int) (devices.GPUHandle, error) {
	return ask[devices.GPUHandle](d, "GPUByIndex", index)
}

func (d driver) GPUByBusID(busID string) (devices.GPUHandle, error) {
	return ask[devices.GPUHandle](d, "GPUByBusID", busID)
}

func (d driver) GPUByUUID(uuid string) (devices.GPUHandle, error) {
	return ask[devices.GPUHandle](d, "GPUByUUID", uuid)
}

func (d driver) Index(h devices.GPUHandle) (int, error)        { return ask[int](d, "Index", h) }
func (d driver) Minor(h devices.GPUHandle) (int, error)        { return ask[int](d, "Minor", h) }
func (d driver) UUID(h devices.GPUHandle) (string, error)      { return ask[string](d, "UUID", h) }
func (d driver) Name(h devices.GPUHandle) (string, error)      { return ask[string](d, "Name", h) }
func (d driver) BusID(h devices.GPUHandle) (string, error)     { return ask[string](d, "BusID", h) }
func (d driver) Brand(h devices.GPUHandle) (int, error)        { return ask[int](d, "Brand", h) }
func (d driver) Architecture(h devices.GPUHandle) (int, error) { return ask[int](d, "Architecture", h) }

func (d driver) VirtualizationMode(h devices.GPUHandle) (int, error) {
	return ask[int](d, "VirtualizationMode", h)
}

func (d driver) Memory(h devices.GPUHandle) (uint64, error) { return ask[uint64](d, "Memory", h) }

func (d driver) ComputeCapability(h devices.GPUHandle) (major, minor int, err error) {
	return askTwo[int, int](d, "ComputeCapability", h)
}

func (d driver) PCIDevice(h devices.GPUHandle) (device, subsystem uint32, err error) {
	return askTwo[uint32, uint32](d, "PCIDevice", h)
}

func (d driver) PersistenceMode(h devices.GPUHandle) (bool, error) {
	return ask[bool](d, "PersistenceMode", h)
}

func (d driver) SetPersistenceMode(h devices.GPUHandle, on bool) error {
	return d.invoke(0, "SetPersistenceMode", nil, h, on)
}

func (d driver) ReservedMemory(h devices.GPUHandle) (uint64, error) {
	return ask[uint64](d, "ReservedMemory", h)
}

func (d driver) SetMemoryLimits(h devices.GPUHandle, cgroup string, soft, hard uint64) error {
	return d.invoke(0, "SetMemoryLimits", nil, h, cgroup, soft, hard)
}

func (d driver) MemoryLimits(h devices.GPUHandle, cgroup string) (devices.MemoryLimits, error) {
	return ask[devices.MemoryLimits](d, "MemoryLimits", h, cgroup)
}

func (d driver) MIGMode(h devices.GPUHandle) (current, pending bool, err error) {
	return askTwo[bool, bool](d, "MIGMode", h)
}

func (d driver) SetMIGMode(h devices.GPUHandle, on bool) (activation, err error) {
	text, err := ask[json.RawMessage](d, "SetMIGMode", h, on)
	if text == nil {
		return nil, err
	}
	return asError(text), err
}

func (d driver) GIProfile(h devices.GPUHandle, enum int) (devices.GIProfile, error) {
	return ask[devices.GIProfile](d, "GIProfile", h, enum)
}

func (d driver) GIPlacements(h devices.GPUHandle, profileID int) ([]devices.Placement, error) {
	return ask[[]devices.Placement](d, "GIPlacements", h, profileID)
}

func (d driver) GIs(h devices.GPUHandle, profileID int) ([]devices.GIHandle, error) {
	return ask[[]devices.GIHandle](d, "GIs", h, profileID)
}

func (d driver) GIInfo(h devices.GIHandle) (devices.GIInfo, error) {
	return ask[devices.GIInfo](d, "GIInfo", h)
}

func (d driver) CreateGI(h devices.GPUHandle, profileID int, at devices.Placement) (devices.GIHandle, error) {
	return ask[devices.GIHandle](d, "CreateGI", h, profileID, at)
}

func (d driver) DestroyGI(h devices.GIHandle) error { return d.invoke(0, "DestroyGI", nil, h) }

func (d driver) CIProfile(h devices.GIHandle, enum int) (devices.CIProfile, error) {
	return ask[devices.CIProfile](d, "CIProfile", h, enum)
}

func (d driver) CIs(h devices.GIHandle, profileID int) ([]devices.CIHandle, error) {
	return ask[[]devices.CIHandle](d, "CIs", h, profileID)
}

func (d driver) CIInfo(h devices.CIHandle) (devices.CIInfo, error) {
	return ask[devices.CIInfo](d, "CIInfo", h)
}

func (d driver) CreateCI(h devices.GIHandle, profileID int) (devices.CIHandle, error) {
	return ask[devices.CIHandle](d, "CreateCI", h, profileID)
}

func (d driver) DestroyCI(h devices.CIHandle) error { return d.invoke(0, "DestroyCI", nil, h) }

func (d driver) MaxMIGDevices(h devices.GPUHandle) (int, error) {
	return ask[int](d, "MaxMIGDevices", h)
}

func (d driver) MIGDevice(h devices.GPUHandle, index int) (devices.GPUHandle, error) {
	return ask[devices.GPUHandle](d, "MIGDevice", h, index)
}

func (d driver) MIGDeviceIDs(h devices.GPUHandle) (gi, ci int, err error) {
	return askTwo[int, int](d, "MIGDeviceIDs", h)
}

func (d driver) Processes(h devices.GPUHandle, kind devices.ProcessKind) ([]devices.Process, error) {
	return ask[[]devices.Process](d, "Processes", h, kind)
}

func (d driver) EventTypes(h devices.GPUHandle) (uint64, error) {
	return ask[uint64](d, "EventTypes", h)
}

func (d driver) Fields(h devices.GPUHandle, ids []int) ([]devices.Field, error) {
	return ask[[]devices.Field](d, "Fields", h, ids)
}

func (d driver) CommonAncestor(a, b devices.GPUHandle) (int, error) {
	return ask[int](d, "CommonAncestor", a, b)
}

func (d driver) NVLinkActive(h devices.GPUHandle, link int) (bool, error) {
	return ask[bool](d, "NVLinkActive", h, link)
}

func (d driver) NVLinkEnd(h devices.GPUHandle, link int) (devices.NVLinkEnd, error) {
	return ask[devices.NVLinkEnd](d, "NVLinkEnd", h, link)
}

func (d driver) NVLinkBusID(h devices.GPUHandle, link int) (string, error) {
	return ask[string](d, "NVLinkBusID", h, link)
}
