// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build !race

package mig_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
	"gpuslice/pkg/mig"
)

// What holds for one GPU of each shape holds for all: every model that the simulator knows has the profile ids, starts and
// counts of one of the three; its driver, asked for every slot on every layout, allows exactly the layouts of that shape, and
// so does the geometry that is read from it. Names, memory and the number of engines differ.
func TestEveryModelHasOneOfThreeShapes(t *testing.T) {
	ofOffers := map[string]string{}
	oracles := map[string]*oracle{}
	for name, g := range geometries(t) {
		oracles[name] = newOracle(t, g, every)
		for _, o := range g.Offers() {
			ofOffers[name] += fmt.Sprintln(o.Profile.ID, o.Profile.MaxInstances, o.Profile.ComputeSlices, o.Profile.MemorySlices, o.Starts)
		}
	}
	got := map[string]int{}
	for _, model := range sim.Models() {
		if testing.Short() && oracles[model] == nil {
			continue
		}
		offers, err := openSeam(t, fmt.Sprintf("gpus: [{model: %s}]", model)).offers()
		if err != nil {
			t.Fatalf("%s: %v", model, err)
		}
		if offers == "" {
			continue // it cannot be cut
		}
		shape := ""
		for name, want := range ofOffers {
			if offers == want {
				shape = name
			}
		}
		if shape == "" {
			t.Errorf("%s has another shape:\n%s", model, offers)
			continue
		}
		o := oracles[shape]
		if diff := cmp.Diff(slices.Sorted(slices.Values(o.legal)), slices.Sorted(maps.Keys(newSeam(t, model).explore(t, o.slots)))); diff != "" {
			t.Errorf("%s does not allow the layouts of %s (-want +got):\n%s", model, shape, diff)
		}
		g := geometryOf(t, model)
		for _, bits := range o.placed {
			_, legal := o.freedom[bits]
			if err := g.Check(named(g, o.set(bits))); (err == nil) != legal {
				t.Fatalf("%s: Check(%s) = %v, its driver says legal=%v", model, named(g, o.set(bits)), err, legal)
			}
		}
		got[shape]++
	}
	t.Logf("models by shape: %v", got)
	if len(got) != 3 {
		t.Errorf("shapes are %v, want three", got)
	}
}

// geometryOf is what the product reads of a model.
func geometryOf(t *testing.T, model string) mig.Geometry {
	t.Helper()
	node, err := devices.New(openSeam(t, fmt.Sprintf("gpus: [{model: %s}]", model)).driver, devices.Options{}).Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return node.GPUs[0].Geometry
}

// named is slots by the names and numbers of another GPU of the same shape.
func named(g mig.Geometry, slots []mig.Slot) mig.Layout {
	own := []mig.Slot{}
	for _, s := range slots {
		p, _ := g.ByID(s.Profile.ID)
		own = append(own, mig.Slot{Profile: p, Start: s.Start})
	}
	return mig.NewLayout(own...)
}

// offers is what the driver says of its profiles, in the order in which a geometry lists them.
func (s *seam) offers() (string, error) {
	type offer struct {
		p      devices.GIProfile
		starts []int
		size   int
	}
	all := []offer{}
	for enum := range devices.GIProfileEnums {
		p, err := s.driver.GIProfile(s.gpu, enum)
		if err != nil {
			continue
		}
		places, err := s.driver.GIPlacements(s.gpu, p.ID)
		if err != nil {
			return "", err
		}
		o := offer{p: p, size: places[0].Size}
		for _, at := range places {
			o.starts = append(o.starts, at.Start)
		}
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b offer) int {
		return slices.Compare([]int{a.p.Slices, a.size, a.p.ID}, []int{b.p.Slices, b.size, b.p.ID})
	})
	text := ""
	for _, o := range all {
		text += fmt.Sprintln(o.p.ID, o.p.MaxInstances, o.p.Slices, o.size, o.starts)
	}
	return text, nil
}
