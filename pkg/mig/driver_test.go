// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build !race

package mig_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
	"gpuslice/pkg/mig"
)

// seam performs steps straight on the one GPU of a simulated driver, which judges each by its own tables.
type seam struct {
	machine *sim.Machine
	driver  devices.Driver
	gpu     devices.GPUHandle
	live    map[string]seamInstance // by slot
	inUse   int                     // destroy attempts that the driver refused because a process runs there
}

type seamInstance struct {
	gi     devices.GIHandle
	ci     devices.CIHandle
	giInfo devices.GIInfo
	ciInfo devices.CIInfo
}

// newSeam opens a GPU of a model in MIG mode.
func newSeam(t *testing.T, model string) *seam {
	t.Helper()
	return openSeam(t, fmt.Sprintf("gpus: [{model: %s, mig: true}]", model))
}

func openSeam(t *testing.T, machineFile string) *seam {
	t.Helper()
	machine, err := sim.ParseYAML([]byte(machineFile))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(machine.Close)
	s := &seam{machine: machine, driver: machine.Open(sim.Admin("test")), live: map[string]seamInstance{}}
	if err := s.driver.Init(); err != nil {
		t.Fatal(err)
	}
	if s.gpu, err = s.driver.GPUByIndex(0); err != nil {
		t.Fatal(err)
	}
	return s
}

var errModeChange = errors.New("no plan here changes the mode")

func (s *seam) SetMode(context.Context, bool) error { return errModeChange }

func (s *seam) Reset(context.Context) error { return errModeChange }

func (s *seam) Create(_ context.Context, slot mig.Slot) error {
	made := seamInstance{}
	at := devices.Placement{Start: slot.Start, Size: slot.Profile.MemorySlices}
	var err error
	if made.gi, err = s.driver.CreateGI(s.gpu, slot.Profile.ID, at); err != nil {
		return err
	}
	if made.giInfo, err = s.driver.GIInfo(made.gi); err != nil {
		return err
	}
	for enum := range devices.CIProfileEnums {
		p, err := s.driver.CIProfile(made.gi, enum)
		if err != nil || p.Slices != slot.Profile.ComputeSlices {
			continue
		}
		if made.ci, err = s.driver.CreateCI(made.gi, p.ID); err != nil {
			return err
		}
		if made.ciInfo, err = s.driver.CIInfo(made.ci); err != nil {
			return err
		}
		s.live[slot.String()] = made
		return nil
	}
	return fmt.Errorf("no compute instance fills %s", slot)
}

func (s *seam) Destroy(_ context.Context, i mig.Instance) error {
	name := i.Slot.String()
	live, ok := s.live[name]
	if !ok {
		return fmt.Errorf("%s is not there", name)
	}
	if err := s.driver.DestroyCI(live.ci); err != nil {
		if errors.Is(err, devices.ErrInUse) {
			s.inUse++
		}
		return err
	}
	delete(s.live, name)
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

const tenant = 4711

// occupy lets a process run on the instances at the given slots; vacate ends it.
func (s *seam) occupy(t *testing.T, slots []mig.Slot) {
	t.Helper()
	for _, slot := range slots {
		live := s.live[slot.String()]
		p := sim.Process{PID: tenant, GI: live.giInfo.ID, CI: live.ciInfo.ID}
		if err := s.machine.StartProcess(0, p); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *seam) vacate(t *testing.T) {
	t.Helper()
	if err := s.machine.StopProcess(0, tenant); err != nil {
		t.Fatal(err)
	}
}

// answers is what the driver says to every single creation: by legal layout, as a set of bits over slots, the slots that
// it made an instance at when asked on top of that layout.
type answers map[uint64]uint64

// explore goes to every layout that the driver lets it reach, and asks for every slot there.
func (s *seam) explore(t *testing.T, slots []mig.Slot) answers {
	t.Helper()
	all := answers{}
	var visit func(from int, bits uint64)
	visit = func(from int, bits uint64) {
		all[bits] = 0
		for i, slot := range slots {
			if bits&(1<<i) != 0 {
				continue
			}
			gi, err := s.driver.CreateGI(s.gpu, slot.Profile.ID, devices.Placement{Start: slot.Start, Size: slot.Profile.MemorySlices})
			if errors.Is(err, devices.ErrInsufficientResources) {
				continue
			}
			if err != nil {
				t.Fatalf("create %s: %v", slot, err)
			}
			all[bits] |= 1 << i
			if i >= from {
				visit(i+1, bits|1<<i)
			}
			if err := s.driver.DestroyGI(gi); err != nil {
				t.Fatalf("destroy %s: %v", slot, err)
			}
		}
	}
	visit(0, 0)
	return all
}
