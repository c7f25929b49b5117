// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"slices"

	"gpuslice/pkg/devices"
)

// CIProfile implements devices.Partitioner.
func (s *session) CIProfile(h devices.GIHandle, enum int) (profile devices.CIProfile, err error) {
	err = s.call("CIProfile", s.onHandle(uint64(h)), func() error {
		r, err := s.resolve(uint64(h), giRef)
		if err != nil {
			return err
		}
		row, ok := r.gi.row.ciByEnum(enum)
		switch {
		case enum < 0 || enum >= devices.CIProfileEnums:
			return devices.ErrInvalidArgument
		case !ok:
			return devices.ErrNotSupported
		}
		profile = row.CIProfile
		return nil
	})
	return profile, err
}

// CIs implements devices.Partitioner.
func (s *session) CIs(h devices.GIHandle, profileID int) (handles []devices.CIHandle, err error) {
	err = s.call("CIs", s.onHandle(uint64(h)), func() error {
		r, err := s.resolve(uint64(h), giRef)
		if err != nil {
			return err
		}
		if _, ok := r.gi.row.ciByID(profileID); !ok {
			return devices.ErrNotSupported
		}
		for _, ci := range r.gi.cis {
			if ci.row.ID == profileID {
				handles = append(handles, s.ciHandle(ci))
			}
		}
		return nil
	})
	return handles, err
}

func (s *session) ciHandle(ci *computeInstance) devices.CIHandle {
	return devices.CIHandle(s.handle(ref{kind: ciRef, gpu: ci.gi.gpu, gi: ci.gi, ci: ci}))
}

// CIInfo implements devices.Partitioner.
func (s *session) CIInfo(h devices.CIHandle) (info devices.CIInfo, err error) {
	err = s.call("CIInfo", s.onHandle(uint64(h)), func() error {
		r, err := s.resolve(uint64(h), ciRef)
		if err == nil {
			info = devices.CIInfo{ID: r.ci.id, ProfileID: r.ci.row.ID, Placement: r.ci.span}
		}
		return err
	})
	return info, err
}

// CreateCI implements devices.Partitioner.
func (s *session) CreateCI(h devices.GIHandle, profileID int) (handle devices.CIHandle, err error) {
	err = s.run(s.onInstance("CreateCI", uint64(h)), func() error {
		r, err := s.resolve(uint64(h), giRef)
		if err != nil {
			return err
		}
		row, ok := r.gi.row.ciByID(profileID)
		switch {
		case !ok:
			return devices.ErrNotSupported
		case !s.client.mayConfig():
			return devices.ErrNoPermission
		}
		span, err := freeSpan(r.gi.cis, row)
		if err != nil {
			return err
		}
		handle = s.ciHandle(r.gi.insertCI(row, span, s.machine.migUUID(r.gpu)))
		return nil
	})
	return handle, err
}

// DestroyCI implements devices.Partitioner.
func (s *session) DestroyCI(h devices.CIHandle) error {
	return s.run(s.onInstance("DestroyCI", uint64(h)), func() error {
		r, err := s.resolve(uint64(h), ciRef)
		switch {
		case err != nil:
			return err
		case !s.client.mayConfig():
			return devices.ErrNoPermission
		case r.gpu.runs(r.gi.id, r.ci.id) || s.machine.subscribed(s, r.ci):
			return devices.ErrInUse
		}
		r.gi.cis = slices.DeleteFunc(r.gi.cis, func(ci *computeInstance) bool { return ci == r.ci })
		s.machine.forgetDead()
		return nil
	})
}

// MaxMIGDevices implements devices.Partitioner.
func (s *session) MaxMIGDevices(h devices.GPUHandle) (int, error) {
	return ask(s, "MaxMIGDevices", h, func(r ref) (int, error) {
		if !r.gpu.mig {
			return 0, nil
		}
		return r.gpu.model.computeSlices, nil
	}, gpuRef)
}

// MIGDevice implements devices.Partitioner.
func (s *session) MIGDevice(h devices.GPUHandle, index int) (devices.GPUHandle, error) {
	return ask(s, "MIGDevice", h, func(r ref) (devices.GPUHandle, error) {
		all := r.gpu.migDevices()
		switch {
		case !r.gpu.model.canMIG():
			return 0, devices.ErrNotSupported
		case index < 0 || index >= max(r.gpu.model.computeSlices, 1):
			return 0, devices.ErrInvalidArgument
		case index >= len(all):
			return 0, devices.ErrNotFound
		}
		return s.migHandle(all[index]), nil
	}, gpuRef)
}

// MIGDeviceIDs implements devices.Partitioner.
func (s *session) MIGDeviceIDs(h devices.GPUHandle) (gi, ci int, err error) {
	r, err := ask(s, "MIGDeviceIDs", h, func(r ref) (ref, error) { return r, nil }, migRef)
	if err != nil {
		return 0, 0, err
	}
	return r.gi.id, r.ci.id, nil
}
