// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"testing"
	"testing/synctest"
	"time"

	"gpuslice/pkg/devices"
)

func (f fixture) watch(types uint64, gpus ...int) devices.EventSet {
	f.t.Helper()
	set, err := f.NewEventSet()
	f.ok(err)
	for _, i := range gpus {
		f.ok(set.Register(f.at(i), types))
	}
	return set
}

func TestEventsReachWhoRegistered(t *testing.T) {
	m := machine(t, "2xh100-sxm5-80gb")
	f := open(t, m, Admin("test"))
	all, zero, recovery := f.watch(eventTypes, 0, 1), f.watch(devices.EventXID, 0), f.watch(devices.EventRecoveryAction, 0)
	f.ok(m.XID(1, 94, 9, 0))
	f.ok(m.Notify(0, devices.Event{Type: devices.EventRecoveryAction, Data: 1, GI: devices.NoInstance, CI: devices.NoInstance}))
	f.ok(m.XID(0, 79, devices.NoInstance, devices.NoInstance))
	for _, tc := range []struct {
		set  devices.EventSet
		want []uint64
	}{{all, []uint64{94, 1, 79}}, {zero, []uint64{79}}, {recovery, []uint64{1}}} {
		for _, want := range tc.want {
			got, err := tc.set.Wait(0)
			f.ok(err)
			if got.Data != want {
				t.Errorf("event is %+v, want data %d", got, want)
			}
		}
		_, err := tc.set.Wait(0)
		f.wants(err, devices.ErrTimeout)
	}
}

func TestWaitBlocks(t *testing.T) {
	for _, tc := range []struct {
		name  string
		after func(f fixture, set devices.EventSet)
		took  time.Duration
		want  devices.Code // 0: an event
	}{
		{"until an event", func(f fixture, _ devices.EventSet) { f.ok(f.machine.XID(0, 48, -1, -1)) }, time.Second, 0},
		{"until the timeout", func(fixture, devices.EventSet) {}, time.Minute, devices.ErrTimeout},
		{"until its GPU is lost", func(f fixture, _ devices.EventSet) { f.ok(f.machine.Lose(0)) }, time.Second, devices.ErrLost},
		{"until its GPU is pulled", func(f fixture, _ devices.EventSet) { f.ok(f.machine.RemoveGPU(0)) }, time.Second, devices.ErrLost},
		{"not for another GPU's loss", func(f fixture, _ devices.EventSet) { f.ok(f.machine.Lose(1)) }, time.Minute, devices.ErrTimeout},
		{"until its client is gone", func(f fixture, _ devices.EventSet) { f.machine.CloseClient("test") }, time.Second, devices.ErrUninitialized},
		{"until it is closed", func(f fixture, set devices.EventSet) { f.ok(set.Close()) }, time.Second, devices.ErrInvalidArgument},
		{"until its session ends", func(f fixture, _ devices.EventSet) { f.ok(f.Shutdown()) }, time.Second, devices.ErrUninitialized},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := open(t, machine(t, "2xl4"), Admin("test"))
				set := f.watch(devices.EventXID, 0)
				start := time.Now()
				timer := time.AfterFunc(time.Second, func() { tc.after(f, set) })
				defer timer.Stop()
				event, err := set.Wait(time.Minute)
				if took := time.Since(start); took != tc.took {
					t.Errorf("waited %v, want %v", took, tc.took)
				}
				if tc.want != 0 {
					f.wants(err, tc.want)
					return
				}
				f.ok(err)
				if event.Data != 48 || event.GI != devices.NoInstance {
					t.Errorf("event is %+v", event)
				}
			})
		})
	}
}

// A lost GPU answers every wait at once, but nothing that was reported before is lost with it.
func TestLostGPUDeliversItsLastEvents(t *testing.T) {
	m := machine(t, "1xl4")
	f := open(t, m, Admin("test"))
	set := f.watch(devices.EventXID, 0)
	f.ok(m.XID(0, 79, devices.NoInstance, devices.NoInstance))
	f.ok(m.Lose(0))
	event, err := set.Wait(time.Minute)
	f.ok(err)
	if event.Data != 79 {
		t.Errorf("event is %+v", event)
	}
	for range 2 {
		_, err = set.Wait(time.Minute)
		f.wants(err, devices.ErrLost)
	}
	f.ok(m.Restore(0))
	_, err = set.Wait(0)
	f.wants(err, devices.ErrTimeout)
}

func TestEventSetsRefuse(t *testing.T) {
	f := open(t, machine(t, "gpus:\n- {model: l4}\n- {model: l4, events: false}\n"), Admin("test"))
	set, err := f.NewEventSet()
	f.ok(err)
	f.wants(set.Register(f.at(1), devices.EventXID), devices.ErrNotSupported)
	f.wants(set.Register(f.at(0), devices.EventXID|1), devices.ErrNotSupported)
	f.wants(set.Register(f.at(0), 0), devices.ErrInvalidArgument)
	f.wants(set.Register(0, devices.EventXID), devices.ErrInvalidArgument)
	types, err := f.EventTypes(f.at(1))
	f.ok(err)
	if types != 0 {
		t.Errorf("types are %x", types)
	}
	f.ok(set.Close())
	f.wants(set.Close(), devices.ErrInvalidArgument)
	_, err = set.Wait(0)
	f.wants(err, devices.ErrInvalidArgument)

	f.fail(Fault{Call: "NewEventSet"})
	_, err = f.NewEventSet()
	f.wants(err, devices.ErrUnknown)
}

func TestWaitCanFail(t *testing.T) {
	m := machine(t, "1xl4")
	f := open(t, m, Admin("test"))
	set := f.watch(devices.EventXID, 0)
	f.ok(m.XID(0, 79, devices.NoInstance, devices.NoInstance))
	release := f.fail(Fault{Call: "Wait", Code: devices.ErrInUse})
	_, err := set.Wait(0)
	f.wants(err, devices.ErrInUse)
	release()
	f.fail(Fault{Call: "Wait", Code: devices.ErrInUse, Form: Done})
	_, err = set.Wait(0)
	f.wants(err, devices.ErrInUse)
	_, err = set.Wait(0) // the event went with the failed answer
	f.wants(err, devices.ErrTimeout)
}

func TestEventsAreBounded(t *testing.T) {
	m := machine(t, "1xl4")
	f := open(t, m, Admin("test"))
	set := f.watch(devices.EventXID, 0)
	for i := range uint64(maxQueued + 1) {
		f.ok(m.XID(0, i, devices.NoInstance, devices.NoInstance))
	}
	first, err := set.Wait(0)
	f.ok(err)
	if first.Data != 1 {
		t.Errorf("first event is %d, want 1: the oldest is dropped", first.Data)
	}
}
