// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package daemon

import (
	"time"

	"gpuslice/pkg/devices"
	"gpuslice/test/simdriver/abi"
)

var eventCalls = map[string]handler{
	"nvmlEventSetCreate":               createSet,
	"nvmlEventSetFree":                 freeSet,
	"nvmlDeviceGetSupportedEventTypes": eventTypes,
	"nvmlDeviceRegisterEvents":         registerEvents,
	"nvmlEventSetWait":                 waitForEvent,
	"nvmlEventSetWait_v2":              waitForEvent,
}

func createSet(r *request) error {
	d, err := r.session()
	if err != nil {
		return err
	}
	set, err := d.NewEventSet()
	if err != nil {
		return err
	}
	h := handle(setHandle, r.daemon.nextSet())
	r.keepSet(h, set)
	r.putUint64(h)
	return nil
}

func (r *request) eventSet() (devices.EventSet, error) {
	if _, err := r.session(); err != nil {
		return nil, err
	}
	return r.set(r.in.Uint64())
}

func freeSet(r *request) error {
	set, err := r.eventSet()
	if err != nil {
		return err
	}
	return set.Close()
}

func eventTypes(r *request) error {
	d, h, _, err := r.onDevice()
	if err != nil {
		return err
	}
	types, err := d.EventTypes(h)
	r.putUint64(types)
	return err
}

func registerEvents(r *request) error {
	_, h, _, err := r.onDevice()
	if err != nil {
		return err
	}
	types := r.in.Uint64()
	set, err := r.eventSet()
	if err != nil {
		return err
	}
	return set.Register(h, types)
}

func waitForEvent(r *request) error {
	set, err := r.eventSet()
	if err != nil {
		return err
	}
	event, err := set.Wait(time.Duration(r.in.Uint32()) * time.Millisecond)
	if err != nil {
		return err
	}
	r.put(abi.Event{
		Device: handle(deviceHandle, uint64(event.GPU)), Type: event.Type, Data: event.Data,
		GI: instanceID(event.GI), CI: instanceID(event.CI),
	})
	return nil
}
