// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent_test

import (
	"testing"
)

// BenchmarkAllocate answers for one slice of a node of 8 GPUs.
func BenchmarkAllocate(b *testing.B) {
	n := newNode(b, "8xh100-sxm5-80gb")
	n.apply(layout("{mig: {fill: 1g}}"))
	view, _ := n.View()
	id := view.Lists["nvidia.com/mig-1g.10gb"][17].ID
	ask := [][]string{{id}}
	for b.Loop() {
		if _, err := n.Allocate("nvidia.com/mig-1g.10gb", ask); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPrefer chooses two slices of 56.
func BenchmarkPrefer(b *testing.B) {
	n := newNode(b, "8xh100-sxm5-80gb")
	n.apply(layout("{mig: {fill: 1g}}"))
	view, _ := n.View()
	ids := []string{}
	for _, l := range view.Lists["nvidia.com/mig-1g.10gb"] {
		ids = append(ids, l.ID)
	}
	for b.Loop() {
		view.Prefer("nvidia.com/mig-1g.10gb", ids, nil, 2)
	}
}

// BenchmarkPreferred chooses among whole GPUs; the budget of a choice through the protocol is 0.15 ms for 8 GPUs, and 1 ms for
// 3 of 16.
func BenchmarkPreferred(b *testing.B) {
	for _, bb := range []struct {
		name, machine string
		size          int
	}{
		{"8/1", "8xh100-sxm5-80gb", 1},
		{"8/4", "8xh100-sxm5-80gb", 4},
		{"8-bridged/3", bridged, 3},
		{"16/3", "16xa100-sxm4-40gb", 3},
		{"16/8", "16xa100-sxm4-40gb", 8},
	} {
		b.Run(bb.name, func(b *testing.B) {
			n := newNode(b, bb.machine)
			n.converge()
			view, _ := n.View()
			ids := []string{}
			for _, l := range view.Lists["nvidia.com/gpu"] {
				ids = append(ids, l.ID)
			}
			for b.Loop() {
				if got := view.Prefer("nvidia.com/gpu", ids, nil, bb.size); len(got) != bb.size {
					b.Fatal(got)
				}
			}
		})
	}
}

// BenchmarkConverge is one pass over 8 GPUs and 56 instances that finds nothing to do.
func BenchmarkConverge(b *testing.B) {
	n := newNode(b, "8xh100-sxm5-80gb")
	n.apply(layout("{mig: {fill: 1g}}"))
	for b.Loop() {
		n.converge()
	}
}
