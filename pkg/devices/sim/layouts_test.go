// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"strings"
	"testing"
	"time"

	"gpuslice/pkg/devices"
)

// Public arithmetic on the A100-40GB: 723 legal layouts of plain profiles, 2,319 with the media extension; with the empty one.
func TestLegalLayoutsOfA100(t *testing.T) {
	for _, tc := range []struct {
		name string
		with func(string) bool
		want int
	}{
		{"without +me", func(name string) bool { return !strings.Contains(name, "+") }, 723},
		{"with +me", func(string) bool { return true }, 2319},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := open(t, machine(t, "gpus:\n- {model: a100-sxm4-40gb, mig: true}\n"), Admin("test"))
			start := time.Now()
			got := f.countLayouts(f.slots(tc.with))
			t.Logf("%d layouts by %d calls in %v", got, f.machine.Total("test"), time.Since(start))
			if got != tc.want {
				t.Errorf("%d layouts, want %d", got, tc.want)
			}
			f.dumps("gpu-0 a100-sxm4-40gb mig=on []\n")
		})
	}
}

// place is a profile at a placement.
type place struct {
	profile int
	at      devices.Placement
}

func (f fixture) slots(with func(name string) bool) []place {
	f.t.Helper()
	gpu := f.at(0)
	var all []place
	for enum := range devices.GIProfileEnums {
		p, err := f.GIProfile(gpu, enum)
		if err != nil || !with(p.Name) {
			continue
		}
		placements, err := f.GIPlacements(gpu, p.ID)
		f.ok(err)
		for _, at := range placements {
			all = append(all, place{p.ID, at})
		}
	}
	return all
}

// countLayouts counts what can be made of the slots, beside what is there: each slot in or out, in order.
func (f fixture) countLayouts(slots []place) int {
	count := 1
	for i, s := range slots {
		gi, err := f.CreateGI(f.at(0), s.profile, s.at)
		if err != nil {
			f.wants(err, devices.ErrInsufficientResources)
			continue
		}
		count += f.countLayouts(slots[i+1:])
		f.ok(f.DestroyGI(gi))
	}
	return count
}
