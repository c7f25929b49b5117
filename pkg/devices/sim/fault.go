// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"gpuslice/pkg/devices"
)

// Form is the way in which a call fails.
type Form int

const (
	// Refused means that nothing was done and the call answers Code.
	Refused Form = iota
	// Done means that it was done and the call answers Code all the same.
	Done
	// Hung means that nothing was done and the call does not come back until the fault is released, the client is gone or
	// the machine is closed; then it answers Code.
	Hung
)

var formNames = []string{Refused: "refused", Done: "done", Hung: "hung"}

// ParseForm reads "refused", "done" or "hung".
func ParseForm(name string) (Form, error) {
	if i := slices.Index(formNames, name); i >= 0 {
		return Form(i), nil
	}
	return 0, fmt.Errorf("unknown form %q; valid forms: %s", name, strings.Join(formNames, ", "))
}

// Fault makes calls fail. The empty Fault with a Code fails every call of everybody.
type Fault struct {
	Call   string // a method of devices.Driver or devices.EventSet; "" is every one
	Client string // "" is every client
	GPUs   []int  // numbers of GPUs; empty is every one, and calls that concern none
	Nth    int    // fail the n-th matching call from now, once; 0 fails all until released
	Code   devices.Code
	Form   Form
}

type injected struct {
	Fault
	seen     int
	released chan struct{}
}

// Fail injects a fault; release ends it and lets the calls that hang in it come back.
func (m *Machine) Fail(f Fault) (release func(), err error) {
	if f.Call != "" {
		if err := knownCall(f.Call); err != nil {
			return nil, err
		}
	}
	if f.Nth < 0 {
		return nil, fmt.Errorf("nth is %d; valid: 0 and above", f.Nth)
	}
	if f.Code == 0 {
		f.Code = devices.ErrUnknown
	}
	in := &injected{Fault: f, released: make(chan struct{})}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = append(m.faults, in)
	return sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		close(in.released)
		m.faults = slices.DeleteFunc(m.faults, func(other *injected) bool { return other == in })
	}), nil
}

// SetLatency makes every call of that name take d longer; 0 ends it.
func (m *Machine) SetLatency(call string, d time.Duration) error {
	if err := knownCall(call); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.latencies[call] = d
	return nil
}

// dueFault counts the call against the faults it matches and returns the first that is due. The caller holds the lock.
func (m *Machine) dueFault(client, call string, g *gpu) *injected {
	var due *injected
	for _, f := range m.faults {
		if !f.matches(client, call, g) {
			continue
		}
		f.seen++
		if due == nil && (f.Nth == 0 || f.seen == f.Nth) {
			due = f
		}
	}
	return due
}

func (f Fault) matches(client, call string, g *gpu) bool {
	return (f.Call == "" || f.Call == call) && (f.Client == "" || f.Client == client) &&
		(len(f.GPUs) == 0 || g != nil && slices.Contains(f.GPUs, g.number))
}

// callNames are the calls that can be counted, delayed and failed.
var callNames = slices.Sorted(slices.Values(slices.Concat(methods[devices.Driver](), methods[devices.EventSet]())))

func methods[T any]() []string {
	var names []string
	for m := range reflect.TypeFor[T]().Methods() {
		names = append(names, m.Name)
	}
	return names
}

func knownCall(name string) error {
	if slices.Contains(callNames, name) {
		return nil
	}
	return fmt.Errorf("unknown call %q; valid calls: %s", name, strings.Join(callNames, ", "))
}
