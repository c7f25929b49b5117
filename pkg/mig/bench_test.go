// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package mig_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"gpuslice/pkg/mig"
)

// question is one call of Pack or Fit.
type question struct {
	want       mig.Counts
	keep, have mig.Layout
}

// questions draws wishes that an empty GPU can follow, each around what is left of a random layout. The first are the
// hardest: for each wish every start is free.
func questions(b *testing.B, g mig.Geometry) []question {
	o := newOracle(b, g, every)
	random := rand.New(rand.NewPCG(1, 2))
	all := []question{}
	for _, w := range o.wishes() {
		all = append(all, question{want: w.counts})
	}
	for range 1000 {
		have := o.legal[random.IntN(len(o.legal))]
		keep := have & random.Uint64()
		want := o.layout(o.around(random, keep))
		all = append(all, question{want: want.Counts(), keep: o.layout(keep), have: o.layout(have)})
	}
	return all
}

// each answers question after question; the slowest one is reported beside the mean, each measured as the best of ten.
func each(b *testing.B, answer func(g mig.Geometry, q question) error) {
	for name, g := range geometries(b) {
		b.Run(name, func(b *testing.B) {
			all := questions(b, g)
			for i := 0; b.Loop(); i++ {
				_ = answer(g, all[i%len(all)])
			}
			slowest := time.Duration(0)
			for _, q := range all {
				best := time.Duration(1 << 62)
				for range 10 {
					started := time.Now()
					_ = answer(g, q)
					best = min(best, time.Since(started))
				}
				slowest = max(slowest, best)
			}
			b.ReportMetric(float64(slowest.Nanoseconds()), "slowest-ns")
			b.ReportMetric(float64(len(all)), "wishes")
		})
	}
}

// BenchmarkPack places every wish on an empty GPU and 1,000 random ones around what stays. The budget is 100 us.
func BenchmarkPack(b *testing.B) {
	each(b, func(g mig.Geometry, q question) error {
		_, err := g.Pack(q.want, q.keep, q.have)
		return err
	})
}

// BenchmarkFit is the same for a GPU that is cut already.
func BenchmarkFit(b *testing.B) {
	each(b, func(g mig.Geometry, q question) error {
		_, err := g.Fit(q.want, q.keep, q.have)
		return err
	})
}

// BenchmarkFill fills a cut GPU with each profile in turn.
func BenchmarkFill(b *testing.B) {
	each(b, func(g mig.Geometry, q question) error {
		offers := g.Offers()
		_, err := g.Fill(offers[len(q.have)%len(offers)].Profile, nil, q.have)
		return err
	})
}
