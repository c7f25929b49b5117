// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"context"
	"errors"
	"fmt"

	"gpuslice/internal/state"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/timeslice"
)

// tried is what became of a time slice that this process set.
type tried struct {
	interval timeslice.Interval
	err      error // that trying again will not change
}

// setIntervals brings the driver's time slices to what the policies say. It is a matter of how GPUs are shared, not of what is
// offered: what cannot be set is a Problem and nothing else.
func (a *Agent) setIntervals(ctx context.Context, targets []Target) []Problem {
	problems := []Problem{}
	for _, t := range targets {
		if t.GPU.Fault != nil || t.GPU.Released != "" || t.GPU.UUID == "" {
			continue
		}
		if err := a.setInterval(ctx, t); err != nil {
			problems = append(problems, Problem{GPU: t.GPU.Name(), Reason: ReasonTimeSliceNotSet, Message: err.Error()})
		}
	}
	return problems
}

func (a *Agent) setInterval(ctx context.Context, t Target) error {
	uuid := t.GPU.UUID
	if !wantsInterval(t) {
		return a.restoreInterval(ctx, t.GPU)
	}
	want, err := timeslice.ParseInterval(t.Policy.Layout.TimeSlicing.Interval)
	if last, known := a.intervals[uuid]; err != nil || known && last.interval == want {
		return errors.Join(err, last.err)
	}
	err = a.changeInterval(ctx, t.GPU, want)
	if err == nil || errors.Is(err, devices.ErrNotSupported) {
		a.intervals[uuid] = tried{want, err}
	}
	return err
}

// wantsInterval says whether the policy says anything of the time slice; without a word of it the driver's is not touched.
func wantsInterval(t Target) bool {
	ts := t.Policy.Layout.TimeSlicing
	return t.Policy.Managed && ts != nil && ts.Interval != ""
}

// changeInterval notes what was before, once, and sets the time slice where it differs.
func (a *Agent) changeInterval(ctx context.Context, g devices.GPU, want timeslice.Interval) error {
	is, err := a.hw.TimeSlice(ctx, g.PCI)
	if err != nil || is == want {
		return err
	}
	if a.gpus[g.UUID].Interval == "" {
		if err := a.note(g.UUID, func(s *state.GPU) { s.Interval = is.String() }); err != nil {
			return err
		}
	}
	return a.hw.SetTimeSlice(ctx, g.PCI, want)
}

// restoreInterval puts back what was before this agent, or one before it in this boot, came.
func (a *Agent) restoreInterval(ctx context.Context, g devices.GPU) error {
	delete(a.intervals, g.UUID)
	before := a.gpus[g.UUID].Interval
	if before == "" {
		return nil
	}
	interval, err := timeslice.ParseInterval(before)
	if err == nil {
		err = a.hw.SetTimeSlice(ctx, g.PCI, interval)
	}
	if err != nil {
		return fmt.Errorf("restore the time slice of before: %w", err)
	}
	return a.note(g.UUID, func(s *state.GPU) { s.Interval = "" })
}
