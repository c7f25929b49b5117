// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent_test

import (
	"testing"

	"gpuslice/internal/agent"
)

// The driver's numbers.
const (
	isDefault = iota
	isShort
	isMedium
	isLong
)

func (n *node) interval(gpu, want int) {
	n.t.Helper()
	if got, err := n.machine.TimeSlice(gpu); err != nil || got != want {
		n.t.Errorf("time slice of GPU %d is %d, %v; want %d", gpu, got, err, want)
	}
}

func sliced(interval string) string {
	return resettable("0", "{timeSlicing: {replicas: 2, interval: "+interval+"}}", "never")
}

// The driver's time slice follows the layout, on that GPU alone, and is what it was before when the layout goes, also when
// another process set it.
func TestIntervalIsSetAndRestored(t *testing.T) {
	for _, restart := range []bool{false, true} {
		n := newNode(t, "2xl40s")
		if err := n.machine.SetTimeSlice(0, isMedium); err != nil { // the admin's own choice
			t.Fatal(err)
		}
		n.apply(sliced("long"))
		n.interval(0, isLong)
		n.interval(1, isDefault)
		if restart {
			n.start()
			n.converge()
		}
		n.apply(sliced("short"))
		n.interval(0, isShort)
		n.apply(resettable("0", "{timeSlicing: {replicas: 2}}", "never")) // not a word of it
		n.interval(0, isMedium)
		n.noProblems()
	}
}

// What is as it shall be is not set again, at a pass or at a start, and nothing is restored that was not changed.
func TestIntervalIsSetOnce(t *testing.T) {
	n := newNode(t, "1xl40s")
	n.apply(sliced("long"))
	n.converge()
	n.start()
	n.converge()
	n.wantCalls("SetTimeSlice", 0)
	n.machine.Reboot() // the module forgets
	n.start()
	n.converge()
	n.interval(0, isLong)
	n.wantCalls("SetTimeSlice", 0, 0)
	n.apply(layout("{}"))
	n.interval(0, isDefault)
}

// S18, P3: where there is no choice that is a Problem, and shares are offered all the same.
func TestIntervalNotSupported(t *testing.T) {
	n := newNode(t, "2xl40s")
	options := n.options()
	options.Program = nil
	n.startWith(options)
	n.apply(sliced("long"))
	n.problem(agent.ReasonTimeSliceNotSet, "gpu-0")
	n.offers("gpu=3")
	n.apply(resettable("0", "{timeSlicing: {replicas: 2}}", "never"))
	n.offers("gpu=3")
	n.noProblems()
}

// Paused is paused.
func TestIntervalWhilePaused(t *testing.T) {
	n := newNode(t, "1xl40s")
	n.apply(head + "layouts: {it: {timeSlicing: {replicas: 2, interval: long}}}\nnodes: [{paused: true, gpus: [{layout: it}]}]\n")
	n.interval(0, isDefault)
	n.wantCalls("SetTimeSlice")
}
