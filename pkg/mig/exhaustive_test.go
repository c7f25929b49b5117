// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build !race

package mig_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
	"gpuslice/pkg/mig"
)

// seam performs steps straight on a simulated driver, which judges each by its own tables.
type seam struct {
	driver devices.Driver
	gpu    devices.GPUHandle
	live   map[string]seamInstance // by slot
}

type seamInstance struct {
	gi   devices.GIHandle
	ci   devices.CIHandle
	info mig.Instance
}

func newSeam(t *testing.T) *seam {
	t.Helper()
	machine, err := sim.Parse("1xa100-sxm4-40gb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(machine.Close)
	s := &seam{driver: machine.Open(sim.Admin("test")), live: map[string]seamInstance{}}
	if err := s.driver.Init(); err != nil {
		t.Fatal(err)
	}
	if s.gpu, err = s.driver.GPUByIndex(0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.driver.SetMIGMode(s.gpu, true); err != nil {
		t.Fatal(err)
	}
	if err := s.driver.Shutdown(); err != nil {
		t.Fatal(err)
	}
	if err := machine.Reset(0); err != nil {
		t.Fatal(err)
	}
	if err := s.driver.Init(); err != nil {
		t.Fatal(err)
	}
	if s.gpu, err = s.driver.GPUByIndex(0); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *seam) SetMode(context.Context, bool) error {
	return fmt.Errorf("no plan here changes the mode")
}

func (s *seam) Create(_ context.Context, slot mig.Slot) error {
	gi, err := s.driver.CreateGI(s.gpu, slot.Profile.ID, devices.Placement{Start: slot.Start, Size: slot.Profile.MemorySlices})
	if err != nil {
		return err
	}
	info, err := s.driver.GIInfo(gi)
	if err != nil {
		return err
	}
	for enum := range devices.CIProfileEnums {
		p, err := s.driver.CIProfile(gi, enum)
		if err != nil || p.Slices != slot.Profile.ComputeSlices {
			continue
		}
		ci, err := s.driver.CreateCI(gi, p.ID)
		if err != nil {
			return err
		}
		s.live[slot.String()] = seamInstance{gi: gi, ci: ci, info: mig.Instance{Slot: slot, GI: info.ID, UUID: "MIG-" + slot.String()}}
		return nil
	}
	return fmt.Errorf("no compute instance fills %s", slot)
}

func (s *seam) Destroy(_ context.Context, i mig.Instance) error {
	live, ok := s.live[i.Slot.String()]
	if !ok {
		return fmt.Errorf("%s is not there", i.Slot)
	}
	delete(s.live, i.Slot.String())
	if err := s.driver.DestroyCI(live.ci); err != nil {
		return err
	}
	return s.driver.DestroyGI(live.gi)
}

// state is what the driver reports, not what was asked for.
func (s *seam) state(t *testing.T, g mig.Geometry) mig.State {
	t.Helper()
	state := mig.State{GPU: "gpu-0", Mode: mig.Mode{Current: true, Pending: true}}
	for _, o := range g.Offers() {
		gis, err := s.driver.GIs(s.gpu, o.Profile.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, gi := range gis {
			info, err := s.driver.GIInfo(gi)
			if err != nil {
				t.Fatal(err)
			}
			slot := mig.Slot{Profile: o.Profile, Start: info.Placement.Start}
			state.Instances = append(state.Instances, mig.Instance{Slot: slot, GI: info.ID, UUID: "MIG-" + slot.String()})
		}
	}
	return state
}

// Every plan between two of the 723 layouts of an A100-40GB without +me, in one walk over all ordered pairs: from each
// layout to each other, planned from what the driver reports, applied step by step, judged by the driver, read back.
// What both layouts share is never touched.
func TestEveryPlanOfAnA100(t *testing.T) {
	if testing.Short() {
		t.Skip("522,729 plans take about a minute")
	}
	g, s := a100(t), newSeam(t)
	all := layouts(g, mig.Profile.Plain)
	started, plans := time.Now(), 0
	visit := func(from, to mig.Layout) {
		have := s.state(t, g)
		if !have.Layout().Equal(from) {
			t.Fatalf("driver reports %s, want %s", have.Layout(), from)
		}
		plan := mig.Diff(have, mig.Want{MIG: true, Layout: to}, mig.InUse{})
		for _, gone := range plan.Removes() {
			if to.Has(gone.Slot) {
				t.Fatalf("%s to %s destroys %s, which is in both", from, to, gone.Slot)
			}
		}
		if err := mig.Apply(t.Context(), s, plan); err != nil {
			t.Fatalf("%s to %s: %v", from, to, err)
		}
		plans++
	}
	// Out and back along every pair i < j covers every ordered pair; the walk from pair to pair is a plan too.
	for i := range all {
		visit(s.state(t, g).Layout(), all[i])
		for j := i + 1; j < len(all); j++ {
			visit(all[i], all[j])
			visit(all[j], all[i])
		}
	}
	if got := s.state(t, g).Layout(); !got.Equal(all[len(all)-1]) {
		t.Errorf("the walk ends in %s, want %s", got, all[len(all)-1])
	}
	if want := 723 * 722; plans < want {
		t.Errorf("%d plans, want at least %d", plans, want)
	}
	t.Logf("%d plans in %v", plans, time.Since(started).Round(time.Second))
}

// For all 2,319 layouts, +me among them: every plan that adds or takes away one slot.
func TestEverySingleStepOfAnA100(t *testing.T) {
	g, s := a100(t), newSeam(t)
	all := layouts(g, any)
	steps := 0
	for _, l := range all {
		plan := mig.Diff(s.state(t, g), mig.Want{MIG: true, Layout: l}, mig.InUse{})
		if err := mig.Apply(t.Context(), s, plan); err != nil {
			t.Fatalf("to %s: %v", l, err)
		}
		for _, slot := range l {
			for _, to := range []mig.Layout{l.Minus(mig.Layout{slot}), l} {
				plan := mig.Diff(s.state(t, g), mig.Want{MIG: true, Layout: to}, mig.InUse{})
				if len(plan.Steps) != 1 {
					t.Fatalf("one slot differs, the plan is %s", plan)
				}
				if err := mig.Apply(t.Context(), s, plan); err != nil {
					t.Fatal(err)
				}
				if got := s.state(t, g).Layout(); !got.Equal(to) {
					t.Fatalf("driver reports %s, want %s", got, to)
				}
				steps++
			}
		}
	}
	t.Logf("%d layouts, %d single steps", len(all), steps)
}
