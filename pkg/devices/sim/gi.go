// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"slices"

	"gpuslice/pkg/devices"
)

// MIGMode implements devices.Partitioner.
func (s *session) MIGMode(h devices.GPUHandle) (current, pending bool, err error) {
	err = s.call("MIGMode", s.on(h), func() error {
		g, err := s.migCapable(h)
		if err != nil {
			return err
		}
		current, pending = g.mig, g.pending
		return nil
	})
	return current, pending, err
}

// SetMIGMode implements devices.Partitioner; mode.go says what it does when.
func (s *session) SetMIGMode(h devices.GPUHandle, on bool) (activation, err error) {
	op := operation{
		name: "SetMIGMode", where: s.on(h), changes: true, verdict: &activation,
		slot: func() string { return "mig=" + onOff(on) },
	}
	err = s.run(op, func() error {
		g, err := s.migCapable(h)
		switch {
		case err != nil:
			return err
		case !s.client.Root:
			return devices.ErrNoPermission
		}
		reset := false
		if activation, reset = g.setMode(on, s.machine.busy(s, g)); reset {
			s.machine.reset(g)
		}
		return nil
	})
	return activation, err
}

// GIProfile implements devices.Partitioner; like placements, profiles are told whether the mode is on or not.
func (s *session) GIProfile(h devices.GPUHandle, enum int) (devices.GIProfile, error) {
	return ask(s, "GIProfile", h, func(r ref) (devices.GIProfile, error) {
		if enum < 0 || enum >= devices.GIProfileEnums {
			return devices.GIProfile{}, devices.ErrInvalidArgument
		}
		row, ok := r.gpu.model.rowByEnum(enum)
		switch {
		case !ok:
			return devices.GIProfile{}, devices.ErrNotSupported
		case !s.client.mayConfig():
			return devices.GIProfile{}, devices.ErrNoPermission
		case !s.machine.profileNames:
			row.Name = ""
		}
		return row.GIProfile, nil
	}, gpuRef)
}

// GIPlacements implements devices.Partitioner.
func (s *session) GIPlacements(h devices.GPUHandle, profileID int) ([]devices.Placement, error) {
	return ask(s, "GIPlacements", h, func(r ref) ([]devices.Placement, error) {
		row, ok := r.gpu.model.rowByID(profileID)
		switch {
		case !r.gpu.model.canMIG():
			return nil, devices.ErrNotSupported
		case !ok:
			return nil, devices.ErrInvalidArgument
		case !s.client.mayConfig():
			return nil, devices.ErrNoPermission
		}
		return slices.Clone(row.placements), nil
	}, gpuRef)
}

// GIs implements devices.Partitioner.
func (s *session) GIs(h devices.GPUHandle, profileID int) (handles []devices.GIHandle, err error) {
	err = s.call("GIs", s.on(h), func() error {
		g, err := s.migEnabled(h)
		if err != nil {
			return err
		}
		if _, ok := g.model.rowByID(profileID); !ok {
			return devices.ErrInvalidArgument
		}
		for _, gi := range g.gis {
			if gi.row.ID == profileID {
				handles = append(handles, devices.GIHandle(s.handle(ref{kind: giRef, gpu: g, gi: gi})))
			}
		}
		return nil
	})
	return handles, err
}

// GIInfo implements devices.Partitioner.
func (s *session) GIInfo(h devices.GIHandle) (info devices.GIInfo, err error) {
	err = s.call("GIInfo", s.onHandle(uint64(h)), func() error {
		r, err := s.resolve(uint64(h), giRef)
		if err == nil {
			info = devices.GIInfo{ID: r.gi.id, ProfileID: r.gi.row.ID, Placement: r.gi.at}
		}
		return err
	})
	return info, err
}

// CreateGI implements devices.Partitioner. A process that uses the GPU as a whole is in the way of any new instance.
func (s *session) CreateGI(h devices.GPUHandle, profileID int, at devices.Placement) (handle devices.GIHandle, err error) {
	where := s.on(h)
	op := operation{name: "CreateGI", where: where, changes: true, slot: func() string {
		if g := where(); g != nil {
			row, _ := g.model.rowByID(profileID)
			return slot(row.Name, at.Start)
		}
		return ""
	}}
	err = s.run(op, func() error {
		g, err := s.migEnabled(h)
		if err != nil {
			return err
		}
		row, ok := g.model.rowByID(profileID)
		switch {
		case !ok:
			return devices.ErrInvalidArgument
		case slices.ContainsFunc(g.processes, Process.wholeGPU):
			return devices.ErrInUse
		}
		if err := fits(g.model, g.gis, row, at); err != nil {
			return err
		}
		handle = devices.GIHandle(s.handle(ref{kind: giRef, gpu: g, gi: g.insertGI(row, at)}))
		return nil
	})
	return handle, err
}

// DestroyGI implements devices.Partitioner. Whoever uses the GPU instance keeps a compute instance in it, which keeps it.
func (s *session) DestroyGI(h devices.GIHandle) error {
	return s.run(s.onInstance("DestroyGI", uint64(h)), func() error {
		r, err := s.resolve(uint64(h), giRef)
		switch {
		case err != nil:
			return err
		case !s.client.mayConfig():
			return devices.ErrNoPermission
		case len(r.gi.cis) > 0:
			return devices.ErrInUse
		}
		r.gpu.gis = slices.DeleteFunc(r.gpu.gis, func(gi *gpuInstance) bool { return gi == r.gi })
		s.machine.forgetDead()
		return nil
	})
}

// onInstance is the operation that changes what an instance's handle names.
func (s *session) onInstance(name string, h uint64) operation {
	return operation{name: name, where: s.onHandle(h), changes: true, slot: func() string {
		if r := s.handles[h]; r.gi != nil {
			return r.gi.slot()
		}
		return ""
	}}
}
