// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package mig_test

import (
	"testing"

	"gpuslice/pkg/mig"
)

// BenchmarkPack places a mixed wish on an empty GPU.
func BenchmarkPack(b *testing.B) {
	g := a100(b)
	want := mig.Counts{9: 1, 14: 1, 19: 1}
	for b.Loop() {
		if _, err := g.Pack(want, nil, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFit re-plans a GPU that is cut already, around a busy slice.
func BenchmarkFit(b *testing.B) {
	g := a100(b)
	have, busy := parse(b, g, "[3g.20gb@4 1g.5gb@0 1g.5gb@1 1g.5gb@2]"), parse(b, g, "[3g.20gb@4]")
	want := mig.Counts{9: 1, 14: 1, 19: 1}
	for b.Loop() {
		if _, err := g.Fit(want, busy, have); err != nil {
			b.Fatal(err)
		}
	}
}
