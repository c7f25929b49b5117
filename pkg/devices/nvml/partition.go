// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build cgo

package nvml

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpuslice/pkg/devices"
)

// maxListed sizes the buffers of instance lists; no GPU has more than 14 instances of one profile.
const maxListed = 32

func (s *session) MIGMode(h devices.GPUHandle) (current, pending bool, err error) {
	d, err := s.gpu(h, "nvmlDeviceGetMigMode")
	if err != nil {
		return false, false, err
	}
	now, next, ret := d.GetMigMode()
	return now == nvml.DEVICE_MIG_ENABLE, next == nvml.DEVICE_MIG_ENABLE, code(ret)
}

// SetMIGMode keeps go-nvml's order: the activation status comes first, then what the call itself returned.
func (s *session) SetMIGMode(h devices.GPUHandle, on bool) (activation, err error) {
	d, err := s.gpu(h, "nvmlDeviceSetMigMode")
	if err != nil {
		return nil, err
	}
	mode := nvml.DEVICE_MIG_DISABLE
	if on {
		mode = nvml.DEVICE_MIG_ENABLE
	}
	status, ret := d.SetMigMode(mode)
	return code(status), code(ret)
}

// GIProfile asks with the newest structure that the library knows, because only that has the driver's own names.
func (s *session) GIProfile(h devices.GPUHandle, enum int) (devices.GIProfile, error) {
	d, err := s.gpu(h, "nvmlDeviceGetGpuInstanceProfileInfo")
	if err != nil {
		return devices.GIProfile{}, err
	}
	if _, err := s.library("nvmlDeviceGetGpuInstanceProfileInfoV"); err == nil {
		p, ret := d.GetGpuInstanceProfileInfoV(enum).V3()
		if ret == nvml.SUCCESS {
			return devices.GIProfile{
				ID: int(p.Id), Name: text(p.Name[:]), Slices: int(p.SliceCount), MaxInstances: int(p.InstanceCount),
				SMs: int(p.MultiprocessorCount), CopyEngines: int(p.CopyEngineCount), Decoders: int(p.DecoderCount),
				Encoders: int(p.EncoderCount), JPEGs: int(p.JpegCount), OFAs: int(p.OfaCount), MemoryMiB: p.MemorySizeMB,
				Graphics: p.Capabilities&nvml.GPU_INSTANCE_PROFILE_CAPS_GFX != 0,
			}, nil
		}
		if ret == nvml.ERROR_NOT_SUPPORTED { // said of GPU and profile, whatever the structure; one that is too new is an invalid argument
			return oldGIProfile(d, enum)
		}
		if p, ret := d.GetGpuInstanceProfileInfoV(enum).V2(); ret == nvml.SUCCESS {
			return devices.GIProfile{
				ID: int(p.Id), Name: text(p.Name[:]), Slices: int(p.SliceCount), MaxInstances: int(p.InstanceCount),
				SMs: int(p.MultiprocessorCount), CopyEngines: int(p.CopyEngineCount), Decoders: int(p.DecoderCount),
				Encoders: int(p.EncoderCount), JPEGs: int(p.JpegCount), OFAs: int(p.OfaCount), MemoryMiB: p.MemorySizeMB,
			}, nil
		}
	}
	return oldGIProfile(d, enum)
}

// oldGIProfile answers also where the newer call wants MIG mode to be on.
func oldGIProfile(d nvml.Device, enum int) (devices.GIProfile, error) {
	p, ret := d.GetGpuInstanceProfileInfo(enum)
	return devices.GIProfile{
		ID: int(p.Id), Slices: int(p.SliceCount), MaxInstances: int(p.InstanceCount),
		SMs: int(p.MultiprocessorCount), CopyEngines: int(p.CopyEngineCount), Decoders: int(p.DecoderCount),
		Encoders: int(p.EncoderCount), JPEGs: int(p.JpegCount), OFAs: int(p.OfaCount), MemoryMiB: p.MemorySizeMB,
	}, code(ret)
}

func giProfileInfo(id int) *nvml.GpuInstanceProfileInfo {
	return &nvml.GpuInstanceProfileInfo{Id: uint32(id), InstanceCount: maxListed}
}

func (s *session) GIPlacements(h devices.GPUHandle, profileID int) ([]devices.Placement, error) {
	d, err := s.gpu(h, "nvmlDeviceGetGpuInstancePossiblePlacements")
	if err != nil {
		return nil, err
	}
	list, ret := d.GetGpuInstancePossiblePlacements(giProfileInfo(profileID))
	if ret != nvml.SUCCESS {
		return nil, code(ret)
	}
	all := make([]devices.Placement, len(list))
	for i, p := range list {
		all[i] = devices.Placement{Start: int(p.Start), Size: int(p.Size)}
	}
	return all, nil
}

func (s *session) GIs(h devices.GPUHandle, profileID int) ([]devices.GIHandle, error) {
	d, err := s.gpu(h, "nvmlDeviceGetGpuInstances")
	if err != nil {
		return nil, err
	}
	list, ret := d.GetGpuInstances(giProfileInfo(profileID))
	if ret != nvml.SUCCESS {
		return nil, code(ret)
	}
	all := make([]devices.GIHandle, len(list))
	for i, gi := range list {
		all[i] = intern(s, &s.gis, gi)
	}
	return all, nil
}

func (s *session) GIInfo(h devices.GIHandle) (devices.GIInfo, error) {
	gi, err := s.gi(h, "nvmlGpuInstanceGetInfo")
	if err != nil {
		return devices.GIInfo{}, err
	}
	info, ret := gi.GetInfo()
	if ret != nvml.SUCCESS {
		return devices.GIInfo{}, code(ret)
	}
	return devices.GIInfo{
		ID: int(info.Id), ProfileID: int(info.ProfileId),
		Placement: devices.Placement{Start: int(info.Placement.Start), Size: int(info.Placement.Size)},
	}, nil
}

func (s *session) CreateGI(h devices.GPUHandle, profileID int, at devices.Placement) (devices.GIHandle, error) {
	d, err := s.gpu(h, "nvmlDeviceCreateGpuInstanceWithPlacement")
	if err != nil {
		return 0, err
	}
	gi, ret := d.CreateGpuInstanceWithPlacement(giProfileInfo(profileID),
		&nvml.GpuInstancePlacement{Start: uint32(at.Start), Size: uint32(at.Size)})
	if ret != nvml.SUCCESS {
		return 0, code(ret)
	}
	return intern(s, &s.gis, gi), nil
}

func (s *session) DestroyGI(h devices.GIHandle) error {
	gi, err := s.gi(h, "nvmlGpuInstanceDestroy")
	if err != nil {
		return err
	}
	return code(gi.Destroy())
}

func (s *session) MaxMIGDevices(h devices.GPUHandle) (int, error) {
	return get(s, h, "nvmlDeviceGetMaxMigDeviceCount", nvml.Device.GetMaxMigDeviceCount)
}

func (s *session) MIGDevice(h devices.GPUHandle, index int) (devices.GPUHandle, error) {
	d, err := get(s, h, "nvmlDeviceGetMigDeviceHandleByIndex", func(d nvml.Device) (nvml.Device, nvml.Return) {
		return d.GetMigDeviceHandleByIndex(index)
	})
	if err != nil {
		return 0, err
	}
	return intern(s, &s.gpus, d), nil
}

func (s *session) MIGDeviceIDs(h devices.GPUHandle) (gi, ci int, err error) {
	if gi, err = get(s, h, "nvmlDeviceGetGpuInstanceId", nvml.Device.GetGpuInstanceId); err != nil {
		return 0, 0, err
	}
	ci, err = get(s, h, "nvmlDeviceGetComputeInstanceId", nvml.Device.GetComputeInstanceId)
	return gi, ci, err
}
