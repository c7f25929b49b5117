// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"errors"
	"slices"
	"time"

	"gpuslice/pkg/devices"
)

// eventTypes are those of every GPU that has events at all.
const eventTypes = devices.EventXID | devices.EventGPUUnavailable | devices.EventRecoveryAction

// maxQueued bounds the events that nobody fetches; the oldest are dropped.
const maxQueued = 1000

// eventSet is a queue of events. Waiting hands out what is queued first; then, as long as a registered GPU is lost or
// removed, it answers ErrLost at once, every time.
type eventSet struct {
	session *session

	// Guarded by the machine's lock.
	registered map[*gpu]uint64
	queue      []devices.Event
	closed     bool
}

// EventTypes implements devices.EventSource.
func (s *session) EventTypes(h devices.GPUHandle) (uint64, error) {
	return ask(s, "EventTypes", h, func(r ref) (uint64, error) {
		if r.gpu.noEvents {
			return 0, nil
		}
		return eventTypes, nil
	}, gpuRef)
}

// NewEventSet implements devices.EventSource.
func (s *session) NewEventSet() (devices.EventSet, error) {
	set := &eventSet{session: s, registered: map[*gpu]uint64{}}
	err := s.call("NewEventSet", nowhere, func() error {
		s.sets = append(s.sets, set)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return set, nil
}

// Register implements devices.EventSet.
func (e *eventSet) Register(h devices.GPUHandle, types uint64) error {
	return e.session.call("Register", e.session.on(h), func() error {
		g, err := e.session.gpuOf(h)
		switch {
		case err != nil:
			return err
		case !e.valid() || types == 0:
			return devices.ErrInvalidArgument
		case g.noEvents || types&^eventTypes != 0:
			return devices.ErrNotSupported
		}
		e.registered[g] |= types
		return nil
	})
}

// valid says whether the set belongs to the session as it is now open. The caller holds the lock.
func (e *eventSet) valid() bool { return !e.closed && slices.Contains(e.session.sets, e) }

// Wait implements devices.EventSet.
func (e *eventSet) Wait(timeout time.Duration) (devices.Event, error) {
	hit, _, err := e.session.enter(operation{name: "Wait", where: nowhere})
	if err != nil {
		return devices.Event{}, err
	}
	event, err := e.next(timeout)
	if err == nil && hit.Form == Done && hit.Code != 0 {
		return devices.Event{}, hit.Code
	}
	return event, err
}

// next blocks for the next event without the machine's lock.
func (e *eventSet) next(timeout time.Duration) (event devices.Event, err error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		var changed chan struct{}
		err := e.session.locked("Wait", func() error {
			changed = e.session.machine.changed
			var err error
			event, err = e.take()
			return err
		})
		if !errors.Is(err, devices.ErrTimeout) {
			return event, err
		}
		select {
		case <-changed:
		case <-timer.C:
			return devices.Event{}, devices.ErrTimeout
		}
	}
}

// take removes the first event; ErrTimeout says that there is none yet. The caller holds the lock.
func (e *eventSet) take() (devices.Event, error) {
	if !e.valid() {
		return devices.Event{}, devices.ErrInvalidArgument
	}
	if len(e.queue) > 0 {
		event := e.queue[0]
		e.queue = e.queue[1:]
		return event, nil
	}
	for g := range e.registered {
		if g.gone() {
			return devices.Event{}, devices.ErrLost
		}
	}
	return devices.Event{}, devices.ErrTimeout
}

// Close implements devices.EventSet.
func (e *eventSet) Close() error {
	return e.session.call("Close", nowhere, func() error {
		if !e.valid() {
			return devices.ErrInvalidArgument
		}
		e.closed = true
		e.session.sets = slices.DeleteFunc(e.session.sets, func(other *eventSet) bool { return other == e })
		e.session.machine.wake()
		return nil
	})
}

// XID reports a fault of the GPU, or of one instance, to everybody who registered for it. It changes nothing else.
func (m *Machine) XID(number int, xid uint64, gi, ci int) error {
	return m.Notify(number, devices.Event{Type: devices.EventXID, Data: xid, GI: gi, CI: ci})
}

// Notify reports any event of the GPU; the event's own GPU is filled in for each receiver.
func (m *Machine) Notify(number int, event devices.Event) error {
	return m.onGPU(number, func(g *gpu) error {
		for _, s := range m.sessions {
			for _, set := range s.sets {
				if set.registered[g]&event.Type == 0 {
					continue
				}
				event.GPU = s.gpuHandle(g)
				set.queue = append(set.queue, event)
				set.queue = set.queue[max(0, len(set.queue)-maxQueued):]
			}
		}
		m.wake()
		return nil
	})
}
