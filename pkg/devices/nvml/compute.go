// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build cgo

package nvml

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpuslice/pkg/devices"
)

func (s *session) CIProfile(h devices.GIHandle, enum int) (devices.CIProfile, error) {
	gi, err := s.gi(h, "nvmlGpuInstanceGetComputeInstanceProfileInfo")
	if err != nil {
		return devices.CIProfile{}, err
	}
	p, ret := gi.GetComputeInstanceProfileInfo(enum, nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
	if ret != nvml.SUCCESS {
		return devices.CIProfile{}, code(ret)
	}
	return devices.CIProfile{ID: int(p.Id), Slices: int(p.SliceCount), MaxInstances: int(p.InstanceCount)}, nil
}

func ciProfileInfo(id int) *nvml.ComputeInstanceProfileInfo {
	return &nvml.ComputeInstanceProfileInfo{Id: uint32(id), InstanceCount: maxListed}
}

func (s *session) CIs(h devices.GIHandle, profileID int) ([]devices.CIHandle, error) {
	gi, err := s.gi(h, "nvmlGpuInstanceGetComputeInstances")
	if err != nil {
		return nil, err
	}
	list, ret := gi.GetComputeInstances(ciProfileInfo(profileID))
	if ret != nvml.SUCCESS {
		return nil, code(ret)
	}
	all := make([]devices.CIHandle, len(list))
	for i, ci := range list {
		all[i] = intern(s, &s.cis, ci)
	}
	return all, nil
}

func (s *session) CIInfo(h devices.CIHandle) (devices.CIInfo, error) {
	ci, err := s.ci(h, "nvmlComputeInstanceGetInfo_v2")
	if err != nil {
		return devices.CIInfo{}, err
	}
	info, ret := ci.GetInfo()
	if ret != nvml.SUCCESS {
		return devices.CIInfo{}, code(ret)
	}
	return devices.CIInfo{
		ID: int(info.Id), ProfileID: int(info.ProfileId),
		Placement: devices.Placement{Start: int(info.Placement.Start), Size: int(info.Placement.Size)},
	}, nil
}

func (s *session) CreateCI(h devices.GIHandle, profileID int) (devices.CIHandle, error) {
	gi, err := s.gi(h, "nvmlGpuInstanceCreateComputeInstance")
	if err != nil {
		return 0, err
	}
	ci, ret := gi.CreateComputeInstance(ciProfileInfo(profileID))
	if ret != nvml.SUCCESS {
		return 0, code(ret)
	}
	return intern(s, &s.cis, ci), nil
}

func (s *session) DestroyCI(h devices.CIHandle) error {
	ci, err := s.ci(h, "nvmlComputeInstanceDestroy")
	if err != nil {
		return err
	}
	return code(ci.Destroy())
}
