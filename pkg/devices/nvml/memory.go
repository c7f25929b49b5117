// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build cgo

package nvml

import (
	"gpuslice/pkg/devices"
)

func (s *session) ReservedMemory(h devices.GPUHandle) (uint64, error) {
	d, err := s.gpu(h, "nvmlDeviceGetMemoryInfo_v2")
	if err != nil {
		return 0, err
	}
	m, ret := d.GetMemoryInfo_v2()
	return m.Reserved, code(ret)
}

func (s *session) SetMemoryLimits(h devices.GPUHandle, cgroup string, soft, hard uint64) error {
	d, err := s.gpu(h, "nvmlDeviceSetMemoryLimits_v1")
	if err != nil {
		return err
	}
	return code(d.SetMemoryLimits_v1(cgroup, soft, hard))
}

func (s *session) MemoryLimits(h devices.GPUHandle, cgroup string) (devices.MemoryLimits, error) {
	d, err := s.gpu(h, "nvmlDeviceGetMemoryLimits_v1")
	if err != nil {
		return devices.MemoryLimits{}, err
	}
	m, ret := d.GetMemoryLimits_v1(cgroup)
	return devices.MemoryLimits{Soft: m.SoftLimit, Hard: m.HardLimit, Used: m.CurrentUsed}, code(ret)
}
