// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devicestest

import (
	"errors"
	"fmt"
	"slices"

	"gpuslice/pkg/devices"
)

// ampere is NVML_DEVICE_ARCH_AMPERE: the generation whose mode change needs a reset.
const ampere = 7

// bench is a subject under a line, with the sessions that the line opened.
type bench struct {
	Subject
	opened []devices.Driver
}

// open opens and initialises a session.
func (b *bench) open(c Client) (devices.Driver, error) {
	d := b.Open(c)
	if err := d.Init(); err != nil {
		return nil, fmt.Errorf("Init: %w", err)
	}
	b.opened = append(b.opened, d)
	return d, nil
}

// close ends what is still open; a line may have ended sessions itself.
func (b *bench) close() {
	for _, d := range b.opened {
		_ = d.Shutdown()
	}
}

// target is a GPU in a session.
type target struct {
	devices.Driver
	gpu   devices.GPUHandle
	busID string
}

// all opens every GPU of the node.
func (b *bench) all(c Client) ([]target, error) {
	d, err := b.open(c)
	if err != nil {
		return nil, err
	}
	count, err := d.GPUCount()
	if err != nil {
		return nil, fmt.Errorf("GPUCount: %w", err)
	}
	targets := make([]target, count)
	for i := range targets {
		gpu, err := d.GPUByIndex(i)
		if err != nil {
			return nil, fmt.Errorf("GPUByIndex %d: %w", i, err)
		}
		busID, err := d.BusID(gpu)
		if err != nil {
			return nil, fmt.Errorf("BusID of %d: %w", i, err)
		}
		targets[i] = target{Driver: d, gpu: gpu, busID: busID}
	}
	return targets, nil
}

// same opens the GPU of another session's target.
func (b *bench) same(c Client, as target) (target, error) {
	d, err := b.open(c)
	if err != nil {
		return target{}, err
	}
	gpu, err := d.GPUByBusID(as.busID)
	if err != nil {
		return target{}, fmt.Errorf("GPUByBusID %s: %w", as.busID, err)
	}
	return target{Driver: d, gpu: gpu, busID: as.busID}, nil
}

// cuttable opens a GPU whose MIG mode is off and changes with or without a reset; every other GPU is let go of.
func (b *bench) cuttable(c Client, withReset bool) (target, error) {
	targets, err := b.all(c)
	if err != nil {
		return target{}, err
	}
	for _, t := range targets {
		on, _, err := t.MIGMode(t.gpu)
		if errors.Is(err, devices.ErrNotSupported) || on {
			continue
		}
		if err != nil {
			return target{}, fmt.Errorf("MIGMode: %w", err)
		}
		arch, err := t.Architecture(t.gpu)
		if err != nil {
			return target{}, fmt.Errorf("read architecture: %w", err)
		}
		if (arch == ampere) == withReset {
			if err := t.Shutdown(); err != nil {
				return target{}, fmt.Errorf("Shutdown: %w", err)
			}
			return b.same(c, t)
		}
	}
	return target{}, skip(fmt.Sprintf("no GPU with mode off whose mode change needs a reset: %t", withReset))
}

// cut opens a GPU and turns its MIG mode on.
func (b *bench) cut() (target, error) {
	t, err := b.cuttable(Client{Name: "first"}, false)
	if err != nil {
		return target{}, err
	}
	activation, err := t.SetMIGMode(t.gpu, true)
	if err := errors.Join(activation, err); err != nil {
		return target{}, fmt.Errorf("SetMIGMode on an idle GPU: %w", err)
	}
	return t, nil
}

// profile is a GPU-instance profile with its placements.
type profile struct {
	devices.GIProfile
	placements []devices.Placement
}

// profiles reads all profiles of a GPU.
func (t target) profiles() ([]profile, error) {
	var all []profile
	for enum := range devices.GIProfileEnums {
		p, err := t.GIProfile(t.gpu, enum)
		if errors.Is(err, devices.ErrNotSupported) || errors.Is(err, devices.ErrInvalidArgument) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("GIProfile %d: %w", enum, err)
		}
		placements, err := t.GIPlacements(t.gpu, p.ID)
		if err != nil {
			return nil, fmt.Errorf("GIPlacements %d: %w", p.ID, err)
		}
		all = append(all, profile{GIProfile: p, placements: placements})
	}
	return all, nil
}

// choose finds a profile, or says that there is none of the kind.
func (t target) choose(kind string, match func(profile) bool) (profile, error) {
	all, err := t.profiles()
	if err != nil {
		return profile{}, err
	}
	if i := slices.IndexFunc(all, match); i >= 0 {
		return all[i], nil
	}
	return profile{}, skip("no profile " + kind)
}

// small is a profile that fits at least twice.
func (t target) small() (profile, error) {
	return t.choose("that fits twice", func(p profile) bool { return p.MaxInstances > 1 && len(p.placements) > 1 && p.Slices == 1 })
}

// create makes a GPU instance.
func (t target) create(p profile, at devices.Placement) (devices.GIHandle, error) {
	gi, err := t.CreateGI(t.gpu, p.ID, at)
	if err != nil {
		return 0, fmt.Errorf("CreateGI profile %d at %d: %w", p.ID, at.Start, err)
	}
	return gi, nil
}

// filling finds the compute-instance profile that takes all of a GPU instance.
func (t target) filling(gi devices.GIHandle, slices int) (devices.CIProfile, error) {
	for enum := range devices.CIProfileEnums {
		if p, err := t.CIProfile(gi, enum); err == nil && p.Slices == slices {
			return p, nil
		}
	}
	return devices.CIProfile{}, fmt.Errorf("no compute instance profile has %d slices", slices)
}

// instance is a GPU instance with the compute instance that fills it.
type instance struct {
	gi      devices.GIHandle
	ci      devices.CIHandle
	profile profile
	info    devices.GIInfo
	ciInfo  devices.CIInfo
}

// carve makes a GPU instance and fills it.
func (t target) carve(p profile, at devices.Placement) (instance, error) {
	gi, err := t.create(p, at)
	if err != nil {
		return instance{}, err
	}
	whole, err := t.filling(gi, p.Slices)
	if err != nil {
		return instance{}, err
	}
	ci, err := t.CreateCI(gi, whole.ID)
	if err != nil {
		return instance{}, fmt.Errorf("CreateCI: %w", err)
	}
	info, err := t.GIInfo(gi)
	if err != nil {
		return instance{}, fmt.Errorf("GIInfo: %w", err)
	}
	ciInfo, err := t.CIInfo(ci)
	if err != nil {
		return instance{}, fmt.Errorf("CIInfo: %w", err)
	}
	return instance{gi: gi, ci: ci, profile: p, info: info, ciInfo: ciInfo}, nil
}

// carveSmall makes the first small instance.
func (t target) carveSmall() (instance, error) {
	p, err := t.small()
	if err != nil {
		return instance{}, err
	}
	return t.carve(p, p.placements[0])
}

// want is nil if a call answered one of the codes.
func want(call string, err error, codes ...devices.Code) error {
	for _, code := range codes {
		if errors.Is(err, code) {
			return nil
		}
	}
	if err == nil {
		return fmt.Errorf("%s succeeded; want one of %v", call, codes)
	}
	return fmt.Errorf("%s: %w; want one of %v", call, err, codes)
}

// differ is nil if two values are equal.
func differ[T comparable](what string, got, wanted T) error {
	if got == wanted {
		return nil
	}
	return fmt.Errorf("%s is %v; want %v", what, got, wanted)
}
