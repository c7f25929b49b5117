// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devicestest

import (
	"testing"
)

func TestSimulatorKeepsTheContract(t *testing.T) {
	Run(t, func(t *testing.T) Subject { return newNode(t).subject() })
}

func TestSimulatorKeepsTheReadOnlyContract(t *testing.T) {
	RunReadOnly(t, func(t *testing.T) Subject { return newNode(t).subject() })
}

// A line that the simulator could not be asked would prove nothing about kind simulators either.
func TestNoLineIsSkippedOnTheSimulator(t *testing.T) {
	r := newRecord()
	Check(r, func() Subject { return newNode(t).subject() })
	if len(r.skipped)+len(r.broken) > 0 {
		t.Errorf("skipped %v, broken %v", r.skipped, r.broken)
	}
}

// Without controls, or without GPUs that fit, lines are reported as skipped, never as kept.
func TestWhatCannotBeAskedIsReported(t *testing.T) {
	r := newRecord()
	Check(r, func() Subject {
		s := newNode(t).subject()
		s.Controls = nil
		return s
	})
	if len(r.broken) > 0 {
		t.Errorf("broken: %v", r.broken)
	}
	wanted := []string{
		"a process keeps its compute instance", "processes outside the caller's PID namespace are left out",
		"a lost GPU is lost alone", "look-ups by UUID fail while a GPU is lost",
		"events arrive in order with their instance", "waiting on a lost GPU says so", "a reset applies the pending mode",
	}
	for _, line := range wanted {
		if r.skipped[line] == "" {
			t.Errorf("line %q is not reported as skipped", line)
		}
	}
	if len(r.skipped) != len(wanted) {
		t.Errorf("skipped %v, want %v", r.skipped, wanted)
	}
}

func TestReadOnlyLinesChangeNothing(t *testing.T) {
	for _, l := range readOnlyLines {
		t.Run(l.name, func(t *testing.T) {
			n := newNode(t)
			before := n.machine.Dump()
			l.run(testReporter{t}, n.subject())
			if after := n.machine.Dump(); after != before || len(n.machine.Log()) > 0 {
				t.Errorf("attempts %v; machine was\n%snow\n%s", n.machine.Log(), before, after)
			}
		})
	}
}
