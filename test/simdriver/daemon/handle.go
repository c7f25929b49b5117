// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package daemon

import (
	"fmt"
	"slices"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
)

// Handles travel as pointers: the upper byte says what they name, so that none is ever the address of anything, the rest is
// the number that the machine gave.
const (
	deviceHandle uint64 = iota + 1
	giHandle
	ciHandle
	setHandle
	placeHandle // a MIG device by GPU, GPU instance and compute instance, opened when it is used
)

const kindShift = 56

func handle(kind, number uint64) uint64 { return kind<<kindShift | number }

// numberOf takes the machine's number out of a handle of the kind.
func numberOf(kind, h uint64) (uint64, error) {
	if h>>kindShift != kind {
		return 0, devices.ErrInvalidArgument
	}
	return h &^ (0xFF << kindShift), nil
}

func handleOfPlace(p place) uint64 {
	return handle(placeHandle, uint64(p.number)<<32|uint64(p.gi)<<16|uint64(p.ci))
}

func placeOfHandle(n uint64) place {
	return place{number: int(n >> 32), mig: true, gi: int(n >> 16 & 0xFFFF), ci: int(n & 0xFFFF)}
}

// onDevice is the session, and the GPU or MIG device whose handle comes next.
func (r *request) onDevice() (devices.Driver, devices.GPUHandle, place, error) {
	d, err := r.session()
	if err != nil {
		return nil, 0, place{}, err
	}
	h, at, err := r.device()
	return d, h, at, err
}

// device reads a handle of either kind.
func (r *request) device() (devices.GPUHandle, place, error) {
	h := r.in.Uint64()
	if n, err := numberOf(placeHandle, h); err == nil {
		at := placeOfHandle(n)
		opened, err := r.openMIG(at)
		return opened, at, err
	}
	n, err := numberOf(deviceHandle, h)
	return devices.GPUHandle(n), r.whereIs(h), err
}

// onGI is the session, and the GPU instance whose handle comes next.
func (r *request) onGI() (d devices.Driver, gi devices.GIHandle, h uint64, at place, err error) {
	if d, err = r.session(); err != nil {
		return nil, 0, 0, place{}, err
	}
	h = r.in.Uint64()
	n, err := numberOf(giHandle, h)
	return d, devices.GIHandle(n), h, r.whereIs(h), err
}

// onCI is the session, and the compute instance whose handle comes next.
func (r *request) onCI() (d devices.Driver, ci devices.CIHandle, at place, err error) {
	if d, err = r.session(); err != nil {
		return nil, 0, place{}, err
	}
	h := r.in.Uint64()
	n, err := numberOf(ciHandle, h)
	return d, devices.CIHandle(n), r.whereIs(h), err
}

// openGPU opens the GPU of a place again.
func (r *request) openGPU(number int) (devices.GPUHandle, error) {
	d, err := r.session()
	if err != nil {
		return 0, err
	}
	g, err := r.daemon.gpu(number)
	if err != nil {
		return 0, err
	}
	return d.GPUByBusID(g.BusID)
}

// openMIG opens the MIG device that is at a place now.
func (r *request) openMIG(at place) (devices.GPUHandle, error) {
	g, err := r.daemon.gpu(at.number)
	if err != nil {
		return 0, err
	}
	index := slices.IndexFunc(migDevices(g), func(i sim.Instance) bool { return i.GI == at.gi && i.CI == at.ci })
	if index < 0 {
		return 0, devices.ErrNotFound
	}
	gpu, err := r.openGPU(at.number)
	if err != nil {
		return 0, err
	}
	d, err := r.session()
	if err != nil {
		return 0, err
	}
	return d.MIGDevice(gpu, index)
}

// putDevice answers the handle of a device at a place.
func (r *request) putDevice(h devices.GPUHandle, at place) {
	r.putUint64(r.remember(handle(deviceHandle, uint64(h)), at))
	g, err := r.daemon.gpu(at.number)
	if err != nil {
		return // a GPU that is gone has no node
	}
	if node := fmt.Sprintf("nvidia%d", g.Minor); r.firstHold(node) {
		_ = r.hold(node) // a process that does not read it does not read the answer either
	}
}
