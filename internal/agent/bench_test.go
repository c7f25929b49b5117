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

// BenchmarkConverge is one pass over 8 GPUs and 56 instances that finds nothing to do.
func BenchmarkConverge(b *testing.B) {
	n := newNode(b, "8xh100-sxm5-80gb")
	n.apply(layout("{mig: {fill: 1g}}"))
	for b.Loop() {
		n.converge()
	}
}
