// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package daemon

import (
	"errors"

	"gpuslice/pkg/devices"
	"gpuslice/test/simdriver/abi"
)

var ciCalls = map[string]handler{
	"nvmlGpuInstanceGetComputeInstanceProfileInfo":  ciProfile,
	"nvmlGpuInstanceGetComputeInstanceProfileInfoV": ciProfileVersioned,
	"nvmlGpuInstanceGetComputeInstances":            listCIs,
	"nvmlGpuInstanceGetComputeInstanceById":         ciByID,
	"nvmlGpuInstanceCreateComputeInstance":          createCI,
	"nvmlComputeInstanceDestroy":                    destroyCI,
	"nvmlComputeInstanceGetInfo":                    ciInfo,
	"nvmlComputeInstanceGetInfo_v2":                 ciInfo,
}

// askCIProfile reads GPU instance, profile and engine profile, of which there is one.
func (r *request) askCIProfile() (abi.CIProfile, error) {
	d, gi, _, _, err := r.onGI()
	if err != nil {
		return abi.CIProfile{}, err
	}
	enum, engines := int(r.in.Uint32()), r.in.Uint32()
	if engines != 0 {
		return abi.CIProfile{}, devices.ErrInvalidArgument
	}
	p, err := d.CIProfile(gi, enum)
	return abi.CIProfile{ID: uint32(p.ID), Slices: uint32(p.Slices), Instances: uint32(p.MaxInstances)}, err
}

func ciProfile(r *request) error {
	p, err := r.askCIProfile()
	if err != nil {
		return err
	}
	r.put(p)
	return nil
}

func ciProfileVersioned(r *request) error {
	p, err := r.askCIProfile()
	if err != nil {
		return err
	}
	v2 := abi.CIProfileV2{Version: r.in.Uint32(), CIProfile: p}
	v3 := abi.CIProfileV3{CIProfileV2: v2}
	switch v2.Version {
	case abi.Version(v2, 2):
		r.put(v2)
	case abi.Version(v3, 3):
		r.put(v3)
	default:
		return devices.Code(abi.VersionMismatch)
	}
	return nil
}

func listCIs(r *request) error {
	d, gi, h, at, err := r.onGI()
	if err != nil {
		return err
	}
	all, err := d.CIs(gi, int(r.in.Uint32()))
	if err != nil {
		return err
	}
	list := make([]uint64, len(all))
	for i, ci := range all {
		list[i] = r.rememberCI(ci, h, at)
	}
	r.put(list)
	r.putUint32(len(list))
	return nil
}

func (r *request) rememberCI(ci devices.CIHandle, parent uint64, gi place) uint64 {
	gi.parent = parent
	return r.remember(handle(ciHandle, uint64(ci)), gi)
}

// ciByID searches, because the machine finds instances by profile only.
func ciByID(r *request) error {
	d, gi, h, at, err := r.onGI()
	if err != nil {
		return err
	}
	id := int(r.in.Uint32())
	for enum := range devices.CIProfileEnums {
		p, err := d.CIProfile(gi, enum)
		if isAbsent(err) {
			continue
		}
		all, listErr := d.CIs(gi, p.ID)
		if err := errors.Join(err, listErr); err != nil {
			return err
		}
		for _, ci := range all {
			info, err := d.CIInfo(ci)
			if err != nil {
				return err
			}
			if info.ID == id {
				r.putUint64(r.rememberCI(ci, h, at))
				return nil
			}
		}
	}
	return devices.ErrNotFound
}

func createCI(r *request) error {
	d, gi, h, at, err := r.onGI()
	if err != nil {
		return err
	}
	ci, err := d.CreateCI(gi, int(r.in.Uint32()))
	if err != nil {
		return err
	}
	r.putUint64(r.rememberCI(ci, h, at))
	return nil
}

func destroyCI(r *request) error {
	d, ci, _, err := r.onCI()
	if err != nil {
		return err
	}
	return d.DestroyCI(ci)
}

// ciInfo tells the MIG device as the device of the instance: nvml.h says that it is the parent, while programs read the UUID
// of the instance there. It is opened, and so held, only if somebody uses it.
func ciInfo(r *request) error {
	d, ci, at, err := r.onCI()
	if err != nil {
		return err
	}
	info, err := d.CIInfo(ci)
	if err != nil {
		return err
	}
	if at.gi == devices.NoInstance {
		number, err := numberOf(giHandle, at.parent)
		gi, infoErr := d.GIInfo(devices.GIHandle(number))
		if err := errors.Join(err, infoErr); err != nil {
			return err
		}
		at.gi = gi.ID
	}
	r.put(abi.CIInfo{
		Device: handleOfPlace(place{number: at.number, gi: at.gi, ci: info.ID}), GPUInstance: at.parent,
		ID: uint32(info.ID), ProfileID: uint32(info.ProfileID), Placement: placementOf(info.Placement),
	})
	return nil
}
