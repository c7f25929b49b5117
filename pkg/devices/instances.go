// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices

import (
	"errors"
	"fmt"

	"gpuslice/pkg/mig"
)

// readInstances reads what a GPU in MIG mode is cut into.
func readInstances(d Driver, h GPUHandle, g mig.Geometry) ([]mig.Instance, error) {
	found, err := migDevices(d, h)
	if err != nil {
		return nil, err
	}
	var all []mig.Instance
	for _, o := range g.Offers() {
		gis, err := d.GIs(h, o.Profile.ID)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return nil, fmt.Errorf("list GPU instances of %s: %w", o.Profile, err)
		}
		for _, gi := range gis {
			inst, err := readInstance(d, gi, o.Profile, found)
			if err != nil {
				return nil, err
			}
			all = append(all, inst)
		}
	}
	return all, nil
}

// instanceIDs is how the driver ties a MIG device to its instances.
type instanceIDs struct{ gi, ci int }

// migDevice is what the driver says of a MIG device.
type migDevice struct {
	uuid  string
	index int
}

// migDevices maps instance ids to MIG devices. It is only a map: which instances exist is read from the GPU instances,
// because one without compute instance has no MIG device.
func migDevices(d Driver, h GPUHandle) (map[instanceIDs]migDevice, error) {
	n, err := d.MaxMIGDevices(h)
	if err != nil {
		return nil, fmt.Errorf("read number of MIG devices: %w", err)
	}
	found := map[instanceIDs]migDevice{}
	for i := range n {
		device, err := d.MIGDevice(h, i)
		if errors.Is(err, ErrNotFound) || errors.Is(err, ErrInvalidArgument) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("open MIG device %d: %w", i, err)
		}
		gi, ci, err := d.MIGDeviceIDs(device)
		if err != nil {
			return nil, fmt.Errorf("read ids of MIG device %d: %w", i, err)
		}
		uuid, err := d.UUID(device)
		if err != nil {
			return nil, fmt.Errorf("read UUID of MIG device %d: %w", i, err)
		}
		found[instanceIDs{gi, ci}] = migDevice{uuid, i}
	}
	return found, nil
}

// readInstance reads one GPU instance and decides whether one compute instance fills it.
func readInstance(d Driver, gi GIHandle, p mig.Profile, found map[instanceIDs]migDevice) (mig.Instance, error) {
	info, err := d.GIInfo(gi)
	if err != nil {
		return mig.Instance{}, fmt.Errorf("read GPU instance of %s: %w", p, err)
	}
	inst := mig.Instance{Slot: mig.Slot{Profile: p, Start: info.Placement.Start}, GI: info.ID, CI: -1, Index: -1}
	cis, err := computeInstances(d, gi)
	if err != nil {
		return inst, fmt.Errorf("%s: %w", inst.Slot, err)
	}
	for _, ci := range cis {
		if ci.slices != p.ComputeSlices {
			inst.Partial = true
		}
		inst.CI = ci.info.ID
		if device, ok := found[instanceIDs{info.ID, ci.info.ID}]; ok {
			inst.UUID, inst.Index = device.uuid, device.index
		}
	}
	return inst, nil
}

type computeInstance struct {
	handle CIHandle
	info   CIInfo
	slices int
}

func computeInstances(d Driver, gi GIHandle) ([]computeInstance, error) {
	all := []computeInstance{}
	for enum := range CIProfileEnums {
		p, err := d.CIProfile(gi, enum)
		if errors.Is(err, ErrNotSupported) || errors.Is(err, ErrInvalidArgument) || errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read compute instance profile %d: %w", enum, err)
		}
		handles, err := d.CIs(gi, p.ID)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return nil, fmt.Errorf("list compute instances: %w", err)
		}
		for _, h := range handles {
			info, err := d.CIInfo(h)
			if err != nil {
				return nil, fmt.Errorf("read compute instance: %w", err)
			}
			all = append(all, computeInstance{handle: h, info: info, slices: p.Slices})
		}
	}
	return all, nil
}
