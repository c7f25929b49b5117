// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package devicestest is the contract of devices.Driver: what a real driver, a simulator and anything else behind that seam
// have to answer.
//
// The contract is a list of lines, each with a name and a check that runs on a node of its own. Run checks all of it and
// changes hardware; RunReadOnly checks what can be checked on a machine that somebody else uses. A line that a node cannot
// be asked (no such GPU, no controls) is reported as skipped, with the reason.
package devicestest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"gpuslice/pkg/devices"
)

// Subject is one node whose driver is checked. Run wants its cuttable GPUs empty, or with instances on some of them only.
type Subject struct {
	// Open gives a client a session of its own, not yet initialised.
	Open func(Client) devices.Driver
	// ModeChangeResets says that SetMIGMode itself resets GPUs that need a reset.
	ModeChangeResets bool
	// Controls make things happen to the hardware; nil where nobody can.
	Controls Controls
}

// Client is who opens a session; the zero Client may do everything, from the host.
type Client struct {
	Name         string
	PIDNamespace string // "" is the host's
	Unprivileged bool   // neither root nor any MIG capability
}

// Controls make things happen to GPUs, which they name by PCI bus id.
type Controls interface {
	Lose(busID string) error
	// Reset is what nvidia-smi --gpu-reset does: it obeys sessions.
	Reset(busID string) error
	// StartProcess lets a process of the PID namespace use a GPU or an instance.
	StartProcess(busID, namespace string, p devices.Process) error
	XID(busID string, xid uint64, gi, ci int) error
}

// Reporter takes what a contract run finds.
type Reporter interface {
	// Errorf says that the subject breaks a line.
	Errorf(line, format string, args ...any)
	// Skipf says that the subject cannot be asked about a line.
	Skipf(line, format string, args ...any)
}

// line is one sentence of the contract.
type line struct {
	name  string
	check func(*bench) error // nil, errSkip with a reason, or how the line is broken
}

var errSkip = errors.New("cannot be asked")

func skip(reason string) error { return fmt.Errorf("%w: %s", errSkip, reason) }

// Run checks the whole contract; every line gets a node of its own from open. It changes modes and instances.
func Run(t *testing.T, open func(t *testing.T) Subject) { runLines(t, lines(), open) }

// RunReadOnly checks the lines that change nothing.
func RunReadOnly(t *testing.T, open func(t *testing.T) Subject) { runLines(t, readOnlyLines, open) }

// Check is Run for a reporter of one's own.
func Check(r Reporter, open func() Subject) {
	for _, l := range lines() {
		l.run(r, open())
	}
}

func lines() []line {
	return slices.Concat(readOnlyLines, modeLines, instanceLines, sessionLines, processLines, lostLines, eventLines)
}

func runLines(t *testing.T, lines []line, open func(t *testing.T) Subject) {
	for _, l := range lines {
		t.Run(l.name, func(t *testing.T) { l.run(testReporter{t}, open(t)) })
	}
}

// run checks one line and closes the sessions it opened.
func (l line) run(r Reporter, s Subject) {
	b := &bench{Subject: s}
	defer b.close()
	switch err := l.check(b); {
	case errors.Is(err, errSkip):
		r.Skipf(l.name, "%v", err)
	case err != nil:
		r.Errorf(l.name, "%v", err)
	}
}

// testReporter reports the line that a subtest runs.
type testReporter struct{ t *testing.T }

func (r testReporter) Errorf(_, format string, args ...any) {
	r.t.Helper()
	r.t.Errorf(format, args...)
}

func (r testReporter) Skipf(_, format string, args ...any) {
	r.t.Helper()
	r.t.Skipf(format, args...)
}
