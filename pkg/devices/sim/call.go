// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"slices"
	"time"

	"gpuslice/pkg/devices"
)

// operation is one call of a client on its way through the machine.
type operation struct {
	name    string
	where   func() *gpu   // the GPU it concerns, nil for none; asked under the lock
	changes bool          // it changes hardware: logged, and seen by the hooks
	slot    func() string // what of the GPU it changes; asked under the lock
	verdict *error        // why what was done is not active yet, for a call that tells it beside its error
}

// nowhere is the place of calls that concern no GPU.
func nowhere() *gpu { return nil }

// onHandle is the place of calls about a handle's GPU.
func (s *session) onHandle(h uint64) func() *gpu {
	return func() *gpu { return s.handles[h].gpu }
}

// on is onHandle for the handle most calls take.
func (s *session) on(h devices.GPUHandle) func() *gpu { return s.onHandle(uint64(h)) }

// call runs a call that changes no hardware; do runs under the machine's lock.
func (s *session) call(name string, where func() *gpu, do func() error) error {
	return s.run(operation{name: name, where: where}, do)
}

// run takes an operation through everything that may happen to it: it is counted, delayed, failed on demand, done and logged.
func (s *session) run(op operation, do func() error) error {
	hit, attempt, err := s.enter(op)
	if err == nil && op.changes {
		s.machine.hook(Hooks.before, op.name)
	}
	done := false
	if err == nil {
		err = s.locked(op.name, do)
		done = err == nil
	}
	if done && hit.Form == Done {
		err = hit.Code
	}
	if op.changes {
		attempt.Done, attempt.Err = done, err
		if err == nil && op.verdict != nil {
			attempt.Err = *op.verdict
		}
		s.machine.logAttempt(attempt)
	}
	if op.changes && done {
		s.machine.hook(Hooks.after, op.name)
	}
	return err
}

// locked runs do under the lock, in a session that is open; Init opens it.
func (s *session) locked(name string, do func() error) error {
	s.machine.mu.Lock()
	defer s.machine.mu.Unlock()
	if s.killed || s.machine.isClosed() || !s.open && name != "Init" {
		return devices.ErrUninitialized
	}
	return do()
}

// enter counts the operation, waits as long as the machine is slow or hangs, and answers the fault that is due, if any.
func (s *session) enter(op operation) (Fault, Attempt, error) {
	m := s.machine
	m.mu.Lock()
	m.count(s.client.Name, op.name)
	attempt := Attempt{Call: op.name, Client: s.client.Name, GPU: devices.NoInstance}
	g := op.where()
	if g != nil {
		attempt.GPU = g.number
	}
	if op.slot != nil {
		attempt.Slot = op.slot()
	}
	latency := m.latencies[op.name]
	due := m.dueFault(s.client.Name, op.name, g)
	unsupported := g != nil && slices.Contains(g.unsupported, op.name)
	m.mu.Unlock()

	s.delay(latency)
	switch {
	case due == nil && unsupported:
		return Fault{}, attempt, devices.ErrNotSupported
	case due == nil:
		return Fault{}, attempt, nil
	case due.Form == Hung:
		s.hang(due)
		return due.Fault, attempt, due.Code
	case due.Form == Refused:
		return due.Fault, attempt, due.Code
	}
	return due.Fault, attempt, nil
}

// delay blocks for d, or until the machine is closed.
func (s *session) delay(d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.machine.closed:
	}
}

// hang blocks until the fault is released, the client is gone or the machine is closed.
func (s *session) hang(f *injected) {
	for {
		s.machine.mu.Lock()
		changed, killed := s.machine.changed, s.killed
		s.machine.mu.Unlock()
		if killed {
			return
		}
		select {
		case <-f.released:
			return
		case <-s.machine.closed:
			return
		case <-changed:
		}
	}
}
