// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build !race

package mig_test

import (
	"errors"
	"maps"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"gpuslice/pkg/mig"
)

// Pack and Fit equal brute force for every wish that an empty GPU can follow, around every set of up to three instances
// that stay, on every shape of GPU: the same layout, or a refusal where brute force finds none. What was there before is
// drawn at random.
func TestEveryPack(t *testing.T) {
	for name, g := range geometries(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOracle(t, g, every)
			wishes, random := o.wishes(), rand.New(rand.NewPCG(1, 2))
			placed, refused := 0, 0
			for _, keep := range o.legal {
				if bits.OnesCount64(keep) > 3 {
					continue
				}
				before := o.around(random, keep)
				for _, w := range wishes {
					for _, fit := range []bool{false, true} {
						if o.compare(t, g, w, keep, before, fit) {
							placed++
						} else {
							refused++
						}
					}
				}
			}
			t.Logf("%d wishes, %d answers equal brute force, so do %d refusals", len(wishes), placed, refused)
		})
	}
}

// compare asks for one wish and says whether it was placed.
func (o *oracle) compare(t *testing.T, g mig.Geometry, w wish, keep, before uint64, fit bool) bool {
	t.Helper()
	ask, name := g.Pack, "Pack"
	if fit {
		ask, name = g.Fit, "Fit"
	}
	want, found := w.best(keep, before, fit)
	got, err := ask(w.counts, o.layout(keep), o.layout(before))
	switch {
	case err != nil && !errors.Is(err, mig.ErrNoFit):
		t.Fatalf("%s(%v, %s, %s) = %v", name, w.counts, o.layout(keep), o.layout(before), err)
	case found != (err == nil) || found && o.bits(got) != want:
		t.Fatalf("%s(%v, %s, %s) = %s, %v; brute force finds %s, %v",
			name, w.counts, o.layout(keep), o.layout(before), got, err, o.layout(want), found)
	}
	return found
}

// best is the way that has keep and, first of all, the most freedom and then the most of what was there before, or the
// other way round; the ways come with the lowest starts first.
func (w wish) best(keep, before uint64, fit bool) (uint64, bool) {
	best, found, first, second := uint64(0), false, 0, 0
	for _, way := range w.ways {
		if way.bits&keep != keep {
			continue
		}
		a, b := way.freedom, bits.OnesCount64(way.bits&before)
		if fit {
			a, b = b, a
		}
		if !found || a > first || a == first && b > second {
			best, found, first, second = way.bits, true, a, b
		}
	}
	return best, found
}

// Of all wishes that ask for no profile more often than it can be had, exactly those are refused that no layout follows.
func TestEveryWish(t *testing.T) {
	for name, g := range geometries(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			possible := map[string]bool{}
			for _, w := range newOracle(t, g, every).wishes() {
				possible[countKey(w.counts)] = true
			}
			asked, refused := 0, 0
			for counts := range multisets(g.Offers()) {
				_, err := g.Pack(counts, nil, nil)
				if (err == nil) != possible[countKey(counts)] || err != nil && !errors.Is(err, mig.ErrNoFit) {
					t.Fatalf("Pack(%v) = %v, brute force says possible=%v", counts, err, possible[countKey(counts)])
				}
				asked++
				if err != nil {
					refused++
				}
			}
			t.Logf("%d wishes, %d refused", asked, refused)
		})
	}
}

// multisets yields every choice of counts up to what each profile allows.
func multisets(offers []mig.Offer) func(yield func(mig.Counts) bool) {
	return func(yield func(mig.Counts) bool) {
		counts := mig.Counts{}
		for {
			if !yield(maps.Clone(counts)) {
				return
			}
			i := slices.IndexFunc(offers, func(o mig.Offer) bool { return counts[o.Profile.ID] < o.Profile.MaxInstances })
			if i < 0 {
				return
			}
			counts[offers[i].Profile.ID]++
			for _, o := range offers[:i] {
				delete(counts, o.Profile.ID)
			}
		}
	}
}
