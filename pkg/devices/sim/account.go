// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import "maps"

// maxAttempts bounds the log of a machine that runs for long.
const maxAttempts = 10_000

// Attempt is one call of a client that would change hardware, or one reset, successful or not.
type Attempt struct {
	Call   string
	GPU    int    // its number; NoInstance where the handle names none
	Slot   string // "3g.40gb@4"; "mig=on" for a mode; "" for the GPU
	Client string // "" for the machine's own controls
	Done   bool   // the driver did it, whatever was answered; a mode that is only pending counts
	Err    error  // what was answered; for SetMIGMode, why the mode is only pending
}

// Hooks are called around the effects of changing calls and of resets, without the machine's lock: a crash test may end the
// calling goroutine or process in them.
type Hooks struct {
	BeforeEffect func(call string) // about to be tried
	AfterEffect  func(call string) // done; not called for what was refused
}

func (h Hooks) before() func(string) { return h.BeforeEffect }
func (h Hooks) after() func(string)  { return h.AfterEffect }

// SetHooks replaces the hooks.
func (m *Machine) SetHooks(h Hooks) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hooks = h
}

func (m *Machine) hook(which func(Hooks) func(string), call string) {
	m.mu.Lock()
	f := which(m.hooks)
	m.mu.Unlock()
	if f != nil {
		f(call)
	}
}

// Calls counts a client's calls by name since the machine was made.
func (m *Machine) Calls(client string) map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.counts[client])
}

// Total is the number of a client's calls of any name.
func (m *Machine) Total(client string) int {
	total := 0
	for _, n := range m.Calls(client) {
		total += n
	}
	return total
}

// count notes a call. The caller holds the lock.
func (m *Machine) count(client, call string) {
	if m.counts[client] == nil {
		m.counts[client] = map[string]int{}
	}
	m.counts[client][call]++
}

// Log lists the attempts to change hardware in the order in which they were answered; the oldest are dropped after 10,000.
func (m *Machine) Log() []Attempt {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Attempt(nil), m.attempts...)
}

func (m *Machine) logAttempt(a Attempt) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.attempts) == maxAttempts {
		m.attempts = append([]Attempt(nil), m.attempts[maxAttempts/2:]...)
	}
	m.attempts = append(m.attempts, a)
}
