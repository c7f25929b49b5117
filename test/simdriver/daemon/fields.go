// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package daemon

import (
	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
	"gpuslice/test/simdriver/abi"
)

var fieldCalls = map[string]handler{"nvmlDeviceGetFieldValues": fieldValues}

// maxFields is far above what nvml.h knows.
const maxFields = 1024

// fieldValues answers every field by itself, in the caller's array.
func fieldValues(r *request) error {
	d, h, _, err := r.onDevice()
	if err != nil {
		return err
	}
	count := r.in.Uint32()
	if count == 0 || count > maxFields {
		return devices.ErrInvalidArgument
	}
	values, ids := make([]abi.FieldValue, count), make([]int, count)
	for i := range values {
		v := &values[i]
		v.ID, v.Scope = r.in.Uint32(), r.in.Uint32()
		for range 4 { // what only an answer says
			r.in.Uint64()
		}
		ids[i] = int(v.ID)
	}
	fields, err := d.Fields(h, ids)
	if err != nil {
		return err
	}
	for i, f := range fields {
		values[i].Type, values[i].Return, values[i].Value = abi.UnsignedLongLong, uint32(f.Code), f.Value
	}
	r.put(values)
	return nil
}

// controlSign sets one thing that a GPU says of itself.
func (d *Daemon) controlSign(w words) (string, error) {
	n, err := w.number(0)
	if err != nil {
		return "", err
	}
	sign, err := sim.ParseSign(w[1], w[2])
	if err != nil {
		return "", err
	}
	return "", d.node.Machine.Sign(n, sign)
}
