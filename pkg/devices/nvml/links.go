// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build cgo

package nvml

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpuslice/pkg/devices"
)

func (s *session) CommonAncestor(a, b devices.GPUHandle) (int, error) {
	other, err := s.gpu(b, "nvmlDeviceGetTopologyCommonAncestor")
	if err != nil {
		return 0, err
	}
	level, err := get(s, a, "", func(d nvml.Device) (nvml.GpuTopologyLevel, nvml.Return) { return d.GetTopologyCommonAncestor(other) })
	return int(level), err
}

func (s *session) NVLinkActive(h devices.GPUHandle, link int) (bool, error) {
	state, err := get(s, h, "nvmlDeviceGetNvLinkState", func(d nvml.Device) (nvml.EnableState, nvml.Return) { return d.GetNvLinkState(link) })
	return state == nvml.FEATURE_ENABLED, err
}

func (s *session) NVLinkEnd(h devices.GPUHandle, link int) (devices.NVLinkEnd, error) {
	end, err := get(s, h, "nvmlDeviceGetNvLinkRemoteDeviceType", func(d nvml.Device) (nvml.IntNvLinkDeviceType, nvml.Return) {
		return d.GetNvLinkRemoteDeviceType(link)
	})
	return devices.NVLinkEnd(end), err
}

func (s *session) NVLinkBusID(h devices.GPUHandle, link int) (string, error) {
	pci, err := get(s, h, "nvmlDeviceGetNvLinkRemotePciInfo_v2", func(d nvml.Device) (nvml.PciInfo, nvml.Return) {
		return d.GetNvLinkRemotePciInfo(link)
	})
	return text(pci.BusId[:]), err
}
