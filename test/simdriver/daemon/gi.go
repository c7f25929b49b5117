// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package daemon

import (
	"gpuslice/pkg/devices"
	"gpuslice/test/simdriver/abi"
)

var giCalls = map[string]handler{
	"nvmlDeviceGetGpuInstanceProfileInfo":           giProfile,
	"nvmlDeviceGetGpuInstanceProfileInfoV":          giProfileVersioned,
	"nvmlDeviceGetGpuInstancePossiblePlacements":    giPlacements,
	"nvmlDeviceGetGpuInstancePossiblePlacements_v2": giPlacements,
	"nvmlDeviceGetGpuInstances":                     listGIs,
	"nvmlDeviceGetGpuInstanceById":                  giByID,
	"nvmlDeviceCreateGpuInstanceWithPlacement":      createGI,
	"nvmlGpuInstanceDestroy":                        destroyGI,
	"nvmlGpuInstanceGetInfo":                        giInfo,
}

// askGIProfile reads device and profile.
func (r *request) askGIProfile() (devices.GIProfile, error) {
	d, h, _, err := r.onDevice()
	if err != nil {
		return devices.GIProfile{}, err
	}
	return d.GIProfile(h, int(r.in.Uint32()))
}

func giProfile(r *request) error {
	p, err := r.askGIProfile()
	if err != nil {
		return err
	}
	r.put(abi.GIProfile{
		ID: uint32(p.ID), Slices: uint32(p.Slices), Instances: uint32(p.MaxInstances), Engines: enginesOf(p), MemoryMiB: p.MemoryMiB,
	})
	return nil
}

// giProfileVersioned knows two structures. A driver that tells no names does not know them.
func giProfileVersioned(r *request) error {
	p, err := r.askGIProfile()
	if err != nil {
		return err
	}
	v2 := abi.GIProfileV2{
		Version: r.in.Uint32(), ID: uint32(p.ID), Slices: uint32(p.Slices), Instances: uint32(p.MaxInstances),
		Engines: enginesOf(p), MemoryMiB: p.MemoryMiB,
	}
	v3 := abi.GIProfileV3{
		Version: v2.Version, ID: v2.ID, Slices: v2.Slices, Instances: v2.Instances, Engines: v2.Engines, MemoryMiB: v2.MemoryMiB,
	}
	if p.Graphics {
		v3.Capabilities = abi.GraphicsCapable
	}
	abi.SetText(v2.Name[:], "MIG "+p.Name)
	abi.SetText(v3.Name[:], "MIG "+p.Name)
	switch {
	case p.Name == "":
		return devices.Code(abi.VersionMismatch)
	case v2.Version == abi.Version(v2, 2):
		r.put(v2)
	case v3.Version == abi.Version(v3, 3):
		r.put(v3)
	default:
		return devices.Code(abi.VersionMismatch)
	}
	return nil
}

func giPlacements(r *request) error {
	d, h, _, err := r.onDevice()
	if err != nil {
		return err
	}
	all, err := d.GIPlacements(h, int(r.in.Uint32()))
	if err != nil {
		return err
	}
	list := make([]abi.Placement, len(all))
	for i, p := range all {
		list[i] = placementOf(p)
	}
	r.put(list)
	r.putUint32(len(list))
	return nil
}

func placementOf(p devices.Placement) abi.Placement {
	return abi.Placement{Start: uint32(p.Start), Size: uint32(p.Size)}
}

func listGIs(r *request) error {
	d, h, at, err := r.onDevice()
	if err != nil {
		return err
	}
	all, err := d.GIs(h, int(r.in.Uint32()))
	if err != nil {
		return err
	}
	list := make([]uint64, len(all))
	for i, gi := range all {
		list[i] = r.rememberGI(gi, h, at.number)
	}
	r.put(list)
	r.putUint32(len(list))
	return nil
}

// rememberGI keeps what is known of a GPU instance whose id somebody asked for before.
func (r *request) rememberGI(gi devices.GIHandle, parent devices.GPUHandle, number int) uint64 {
	h := handle(giHandle, uint64(gi))
	at := r.whereIs(h)
	at.number, at.parent = number, handle(deviceHandle, uint64(parent))
	return r.remember(h, at)
}

// giByID searches, because the machine finds instances by profile only.
func giByID(r *request) error {
	d, h, at, err := r.onDevice()
	if err != nil {
		return err
	}
	id := int(r.in.Uint32())
	for _, p := range r.daemon.node.data.profiles[at.number] {
		all, err := d.GIs(h, p.ID)
		if err != nil {
			return err
		}
		for _, gi := range all {
			info, err := d.GIInfo(gi)
			if err != nil {
				return err
			}
			if info.ID == id {
				r.putUint64(r.rememberGI(gi, h, at.number))
				return nil
			}
		}
	}
	return devices.ErrNotFound
}

func createGI(r *request) error {
	d, h, at, err := r.onDevice()
	if err != nil {
		return err
	}
	id := int(r.in.Uint32())
	where := devices.Placement{Start: int(r.in.Uint32()), Size: int(r.in.Uint32())}
	gi, err := d.CreateGI(h, id, where)
	if err != nil {
		return err
	}
	r.putUint64(r.rememberGI(gi, h, at.number))
	return nil
}

func destroyGI(r *request) error {
	d, gi, _, _, err := r.onGI()
	if err != nil {
		return err
	}
	return d.DestroyGI(gi)
}

func giInfo(r *request) error {
	d, gi, h, at, err := r.onGI()
	if err != nil {
		return err
	}
	info, err := d.GIInfo(gi)
	if err != nil {
		return err
	}
	at.gi = info.ID
	r.remember(h, at)
	r.put(abi.GIInfo{Device: at.parent, ID: uint32(info.ID), ProfileID: uint32(info.ProfileID), Placement: placementOf(info.Placement)})
	return nil
}
