// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package daemon

import (
	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
	"gpuslice/test/simdriver/wire"
)

var managementCalls = map[string]handler{
	"nvmlDeviceGetPersistenceMode": persistence,
	"nvmlDeviceSetPersistenceMode": setPersistence,
	wire.CallReset:                 withID(reset),
	wire.CallSetPersistence:        withID(setPersistenceByID),
	wire.CallGetTimeSlice:          withID(timeSlice),
	wire.CallSetTimeSlice:          withID(setTimeSlice),
}

func persistence(r *request) error {
	d, h, _, err := r.onDevice()
	if err != nil {
		return err
	}
	on, err := d.PersistenceMode(h)
	r.putUint32(asNumber(on))
	return err
}

func setPersistence(r *request) error {
	d, h, _, err := r.onDevice()
	if err != nil {
		return err
	}
	on := r.in.Uint32()
	if on > 1 {
		return devices.ErrInvalidArgument
	}
	return d.SetPersistenceMode(h, on == 1)
}

// changePersistence reads what is wanted.
func (r *request) changePersistence(number int) error {
	on := r.in.Uint32()
	switch {
	case !r.root:
		return devices.ErrNoPermission
	case on > 1:
		return devices.ErrInvalidArgument
	}
	return r.daemon.node.Machine.Persistence(number, on == 1)
}

// withID finds the GPU of an id. No handle is taken, so nothing is held; a GPU that the session does not see is not there.
func withID(do func(*request, sim.GPU) error) handler {
	return func(r *request) error {
		if _, err := r.session(); err != nil {
			return err
		}
		id, sight := r.in.Text(), r.sight()
		for position, index := range sight.visible {
			g := sight.all[index]
			if id != numberText(position) && id != g.UUID && !sameBusID(g.BusID, id) {
				continue
			}
			now, err := r.daemon.gpu(g.Number)
			if err != nil {
				return err
			}
			return do(r, now)
		}
		return devices.ErrNotFound
	}
}

func reset(r *request, g sim.GPU) error {
	if !r.root {
		return devices.ErrNoPermission
	}
	r.out.Put([]byte(g.BusID))
	return r.daemon.node.Machine.Reset(g.Number)
}

func setPersistenceByID(r *request, g sim.GPU) error {
	r.out.Put([]byte(g.BusID))
	return r.changePersistence(g.Number)
}

func timeSlice(r *request, g sim.GPU) error {
	interval, err := r.daemon.node.Machine.TimeSlice(g.Number)
	r.putUint32(interval)
	return err
}

func setTimeSlice(r *request, g sim.GPU) error {
	wanted := r.in.Uint32()
	if !r.root {
		return devices.ErrNoPermission
	}
	r.out.Put([]byte(g.BusID))
	return r.daemon.node.Machine.SetTimeSlice(g.Number, int(wanted))
}
