// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build cgo

package nvml

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpuslice/pkg/devices"
)

func (s *session) DriverVersion() (string, error) {
	lib, err := s.library("")
	if err != nil {
		return "", err
	}
	v, ret := lib.SystemGetDriverVersion()
	return v, code(ret)
}

func (s *session) CUDADriverVersion() (int, error) {
	lib, err := s.library("nvmlSystemGetCudaDriverVersion")
	if err != nil {
		return 0, err
	}
	v, ret := lib.SystemGetCudaDriverVersion()
	return v, code(ret)
}

func (s *session) GPUCount() (int, error) {
	lib, err := s.library("")
	if err != nil {
		return 0, err
	}
	n, ret := lib.DeviceGetCount()
	return n, code(ret)
}

func (s *session) open(get func(nvml.Interface) (nvml.Device, nvml.Return)) (devices.GPUHandle, error) {
	lib, err := s.library("")
	if err != nil {
		return 0, err
	}
	d, ret := get(lib)
	if ret != nvml.SUCCESS {
		return 0, code(ret)
	}
	return intern(s, &s.gpus, d), nil
}

func (s *session) GPUByIndex(index int) (devices.GPUHandle, error) {
	return s.open(func(l nvml.Interface) (nvml.Device, nvml.Return) { return l.DeviceGetHandleByIndex(index) })
}

func (s *session) GPUByBusID(busID string) (devices.GPUHandle, error) {
	return s.open(func(l nvml.Interface) (nvml.Device, nvml.Return) { return l.DeviceGetHandleByPciBusId(busID) })
}

func (s *session) GPUByUUID(uuid string) (devices.GPUHandle, error) {
	return s.open(func(l nvml.Interface) (nvml.Device, nvml.Return) { return l.DeviceGetHandleByUUID(uuid) })
}

// get makes one getter call on a GPU.
func get[T any](s *session, h devices.GPUHandle, symbol string, call func(nvml.Device) (T, nvml.Return)) (T, error) {
	var none T
	d, err := s.gpu(h, symbol)
	if err != nil {
		return none, err
	}
	v, ret := call(d)
	if ret != nvml.SUCCESS {
		return none, code(ret)
	}
	return v, nil
}

func (s *session) Index(h devices.GPUHandle) (int, error) {
	return get(s, h, "", nvml.Device.GetIndex)
}

func (s *session) Minor(h devices.GPUHandle) (int, error) {
	return get(s, h, "", nvml.Device.GetMinorNumber)
}

func (s *session) UUID(h devices.GPUHandle) (string, error) {
	return get(s, h, "", nvml.Device.GetUUID)
}

func (s *session) Name(h devices.GPUHandle) (string, error) {
	return get(s, h, "", nvml.Device.GetName)
}

func (s *session) BusID(h devices.GPUHandle) (string, error) {
	pci, err := get(s, h, "", nvml.Device.GetPciInfo)
	return text(pci.BusId[:]), err
}

func (s *session) PCIDevice(h devices.GPUHandle) (device, subsystem uint32, err error) {
	pci, err := get(s, h, "", nvml.Device.GetPciInfo)
	return pci.PciDeviceId, pci.PciSubSystemId, err
}

func (s *session) Brand(h devices.GPUHandle) (int, error) {
	b, err := get(s, h, "nvmlDeviceGetBrand", nvml.Device.GetBrand)
	return int(b), err
}

func (s *session) Architecture(h devices.GPUHandle) (int, error) {
	a, err := get(s, h, "nvmlDeviceGetArchitecture", nvml.Device.GetArchitecture)
	return int(a), err
}

func (s *session) ComputeCapability(h devices.GPUHandle) (major, minor int, err error) {
	d, err := s.gpu(h, "nvmlDeviceGetCudaComputeCapability")
	if err != nil {
		return 0, 0, err
	}
	major, minor, ret := d.GetCudaComputeCapability()
	return major, minor, code(ret)
}

func (s *session) Memory(h devices.GPUHandle) (uint64, error) {
	m, err := get(s, h, "", nvml.Device.GetMemoryInfo)
	return m.Total, err
}

func (s *session) VirtualizationMode(h devices.GPUHandle) (int, error) {
	mode, err := get(s, h, "nvmlDeviceGetVirtualizationMode", nvml.Device.GetVirtualizationMode)
	return int(mode), err
}

// text reads a C string from a fixed buffer, whose char is signed on some platforms.
func text[C int8 | uint8](buffer []C) string {
	out := make([]byte, 0, len(buffer))
	for _, c := range buffer {
		if c == 0 {
			break
		}
		out = append(out, byte(c))
	}
	return string(out)
}
