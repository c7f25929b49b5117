// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package mig_test

import (
	"testing"

	"gpuslice/pkg/mig"
)

// span lists starts from first to last.
func span(first, last, step int) []int {
	starts := []int{}
	for s := first; s <= last; s += step {
		starts = append(starts, s)
	}
	return starts
}

func offer(id int, name string, compute, memory, count int, e mig.Engines, starts []int) mig.Offer {
	return mig.Offer{
		Profile: mig.Profile{ID: id, Name: name, ComputeSlices: compute, MemorySlices: memory, MaxInstances: count, Engines: e},
		Starts:  starts,
	}
}

func geometry(t testing.TB, offers ...mig.Offer) mig.Geometry {
	t.Helper()
	g, err := mig.NewGeometry(offers)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// a100 is an A100-SXM4-40GB, typed from the profile tables of NVIDIA's MIG user guide.
func a100(t testing.TB) mig.Geometry {
	return geometry(t,
		offer(19, "1g.5gb", 1, 1, 7, mig.Engines{SMs: 14, Copy: 1}, span(0, 6, 1)),
		offer(20, "1g.5gb+me", 1, 1, 1, mig.Engines{SMs: 14, Copy: 1, Decoder: 1, JPEG: 1, OFA: 1}, span(0, 6, 1)),
		offer(15, "1g.10gb", 1, 2, 4, mig.Engines{SMs: 14, Copy: 1, Decoder: 1}, span(0, 6, 2)),
		offer(14, "2g.10gb", 2, 2, 3, mig.Engines{SMs: 28, Copy: 2, Decoder: 1}, span(0, 4, 2)),
		offer(9, "3g.20gb", 3, 4, 2, mig.Engines{SMs: 42, Copy: 3, Decoder: 2}, []int{0, 4}),
		offer(5, "4g.20gb", 4, 4, 1, mig.Engines{SMs: 56, Copy: 4, Decoder: 2}, []int{0}),
		offer(0, "7g.40gb", 7, 8, 1, mig.Engines{SMs: 98, Copy: 7, Decoder: 5, JPEG: 1, OFA: 1}, []int{0}),
	)
}

// rtxPro is an RTX PRO 6000 Blackwell Server Edition, the one GPU with all attributes: 12 memory and 4 compute slices.
func rtxPro(t testing.TB) mig.Geometry {
	quarters, halves := span(0, 9, 3), []int{0, 6}
	return geometry(t,
		offer(14, "1g.24gb", 1, 3, 4, mig.Engines{Decoder: 1, Encoder: 1, JPEG: 1}, quarters),
		offer(21, "1g.24gb+me", 1, 3, 1, mig.Engines{Decoder: 1, Encoder: 1, JPEG: 1, OFA: 1}, quarters),
		offer(47, "1g.24gb+gfx", 1, 3, 4, mig.Engines{Decoder: 1, Encoder: 1, JPEG: 1}, quarters),
		offer(65, "1g.24gb+me.all", 1, 3, 1, mig.Engines{Decoder: 4, Encoder: 4, JPEG: 4, OFA: 1}, quarters),
		offer(67, "1g.24gb-me", 1, 3, 4, mig.Engines{}, quarters),
		offer(5, "2g.48gb", 2, 6, 2, mig.Engines{Decoder: 2, Encoder: 2, JPEG: 2}, halves),
		offer(35, "2g.48gb+gfx", 2, 6, 2, mig.Engines{Decoder: 2, Encoder: 2, JPEG: 2}, halves),
		offer(64, "2g.48gb+me.all", 2, 6, 1, mig.Engines{Decoder: 4, Encoder: 4, JPEG: 4, OFA: 1}, halves),
		offer(66, "2g.48gb-me", 2, 6, 2, mig.Engines{}, halves),
		offer(0, "4g.96gb", 4, 12, 1, mig.Engines{Decoder: 4, Encoder: 4, JPEG: 4, OFA: 1}, []int{0}),
		offer(32, "4g.96gb+gfx", 4, 12, 1, mig.Engines{Decoder: 4, Encoder: 4, JPEG: 4, OFA: 1}, []int{0}),
	)
}

func a30(t testing.TB) mig.Geometry {
	return geometry(t,
		offer(14, "1g.6gb", 1, 1, 4, mig.Engines{Decoder: 1}, span(0, 3, 1)),
		offer(21, "1g.6gb+me", 1, 1, 1, mig.Engines{Decoder: 1, JPEG: 1, OFA: 1}, span(0, 3, 1)),
		offer(5, "2g.12gb", 2, 2, 2, mig.Engines{Decoder: 2}, []int{0, 2}),
		offer(6, "2g.12gb+me", 2, 2, 1, mig.Engines{Decoder: 2, JPEG: 1, OFA: 1}, []int{0, 2}),
		offer(0, "4g.24gb", 4, 4, 1, mig.Engines{Decoder: 4, JPEG: 1, OFA: 1}, []int{0}),
	)
}

func parse(t testing.TB, g mig.Geometry, text string) mig.Layout {
	t.Helper()
	l, err := g.ParseLayout(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
