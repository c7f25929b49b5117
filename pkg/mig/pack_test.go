// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package mig_test

import (
	"cmp"
	"errors"
	"slices"
	"testing"

	"gpuslice/pkg/mig"
)

func counts(t *testing.T, g mig.Geometry, want map[string]int) mig.Counts {
	t.Helper()
	c := mig.Counts{}
	for name, n := range want {
		p, _, err := g.Resolve(name)
		if err != nil {
			t.Fatal(err)
		}
		c[p.ID] = n
	}
	return c
}

func TestPack(t *testing.T) {
	g := a100(t)
	for _, tc := range []struct {
		name       string
		want       map[string]int
		keep, last string
		layout     string
	}{
		{"3g goes right, so that a 4g stays possible on the left", map[string]int{"3g.20gb": 1}, "[]", "[]", "[3g.20gb@4]"},
		{"a single 1g takes the start that no 2g can use", map[string]int{"1g.5gb": 1}, "[]", "[]", "[1g.5gb@6]"},
		{"inference: idle small slices stay together", map[string]int{"3g.20gb": 1, "1g.5gb": 3}, "[]", "[]", "[3g.20gb@4 1g.5gb@0 1g.5gb@1 1g.5gb@2]"},
		{"what is kept stays where it is", map[string]int{"3g.20gb": 2}, "[3g.20gb@0]", "[]", "[3g.20gb@0 3g.20gb@4]"},
		{"all seven", map[string]int{"1g.5gb": 7}, "[]", "[]", "[1g.5gb@0 1g.5gb@1 1g.5gb@2 1g.5gb@3 1g.5gb@4 1g.5gb@5 1g.5gb@6]"},
		{"nothing wanted", nil, "[]", "[]", "[]"},
	} {
		got, err := g.Pack(counts(t, g, tc.want), parse(t, g, tc.keep), parse(t, g, tc.last))
		if err != nil || got.String() != tc.layout {
			t.Errorf("%s: Pack = %s, %v; want %s", tc.name, got, err, tc.layout)
		}
	}
}

// The objective of Pack, written a second time over all layouts that brute force finds.
func TestPackAgainstBruteForce(t *testing.T) {
	g := a100(t)
	all := layouts(g, any)
	freedom := map[string]int{}
	legal := map[string]bool{}
	for _, l := range all {
		legal[l.String()] = true
	}
	for _, l := range all {
		for _, s := range g.Slots() {
			if bigger := mig.NewLayout(append(slices.Clip(l), s)...); len(bigger) > len(l) && legal[bigger.String()] {
				freedom[l.String()] += s.Profile.MemorySlices
			}
		}
	}
	byCounts := map[string][]mig.Layout{}
	for _, l := range all {
		byCounts[countKey(l)] = append(byCounts[countKey(l)], l)
	}
	for _, same := range byCounts {
		last := same[len(same)/2]
		best := slices.MinFunc(same, func(a, b mig.Layout) int {
			return cmp.Or(
				cmp.Compare(freedom[b.String()], freedom[a.String()]),
				cmp.Compare(len(a.Minus(last)), len(b.Minus(last))),
				slices.CompareFunc(a, b, func(x, y mig.Slot) int { return cmp.Compare(x.Start, y.Start) }),
			)
		})
		got, err := g.Pack(best.Counts(), nil, last)
		if err != nil || !got.Equal(best) {
			t.Fatalf("Pack(%v, last %s) = %s, %v; brute force finds %s", best.Counts(), last, got, err, best)
		}
	}
	t.Logf("%d multisets of profiles", len(byCounts))
}

func countKey(l mig.Layout) string {
	key := make([]byte, 256)
	for id, n := range l.Counts() {
		key[id] = byte('0' + n)
	}
	return string(key)
}

func TestPackSaysWhatIsMissing(t *testing.T) {
	g := a100(t)
	for _, tc := range []struct {
		name string
		want mig.Counts
		keep string
		is   error
	}{
		{"too many of one", mig.Counts{9: 3}, "[]", mig.ErrNoFit},
		{"no room for both", mig.Counts{0: 1, 19: 1}, "[]", mig.ErrNoFit},
		{"kept stands in the way", mig.Counts{9: 1, 5: 1}, "[3g.20gb@0]", mig.ErrNoFit},
		{"kept is not wanted", mig.Counts{19: 1}, "[3g.20gb@0]", mig.ErrNoFit},
		{"a profile of another GPU", mig.Counts{47: 1}, "[]", mig.ErrUnknownProfile},
	} {
		if l, err := g.Pack(tc.want, parse(t, g, tc.keep), nil); !errors.Is(err, tc.is) {
			t.Errorf("%s: Pack = %s, %v; want %v", tc.name, l, err, tc.is)
		}
	}
}

func TestFit(t *testing.T) {
	g := a100(t)
	for _, tc := range []struct {
		name             string
		want             map[string]int
		busy, have, gets string
	}{
		{"what matches is adopted, even where Pack would put it elsewhere", map[string]int{"3g.20gb": 1}, "[]", "[3g.20gb@0]", "[3g.20gb@0]"},
		{"two idle 1g become a 2g, the third stays", map[string]int{"3g.20gb": 1, "2g.10gb": 1, "1g.5gb": 1}, "[3g.20gb@4]", "[3g.20gb@4 1g.5gb@0 1g.5gb@1 1g.5gb@2]", "[3g.20gb@4 2g.10gb@0 1g.5gb@2]"},
		{"the busy 1g stays, an idle one goes", map[string]int{"1g.5gb": 1}, "[1g.5gb@2]", "[1g.5gb@0 1g.5gb@2]", "[1g.5gb@2]"},
		{"an idle slice moves when the wanted cut has no other place", map[string]int{"4g.20gb": 1, "3g.20gb": 1}, "[]", "[3g.20gb@0]", "[4g.20gb@0 3g.20gb@4]"},
		{"M12: have 4g busy and 2g, want 4g and two 1g", map[string]int{"4g.20gb": 1, "1g.5gb": 2}, "[4g.20gb@0]", "[4g.20gb@0 2g.10gb@4]", "[4g.20gb@0 1g.5gb@4 1g.5gb@5]"},
	} {
		got, err := g.Fit(counts(t, g, tc.want), parse(t, g, tc.busy), parse(t, g, tc.have))
		if err != nil || got.String() != tc.gets {
			t.Errorf("%s: Fit = %s, %v; want %s", tc.name, got, err, tc.gets)
		}
	}
	if l, err := g.Fit(mig.Counts{0: 1}, parse(t, g, "[4g.20gb@0]"), parse(t, g, "[4g.20gb@0]")); !errors.Is(err, mig.ErrNoFit) {
		t.Errorf("7g over a busy 4g: Fit = %s, %v; want refusal (M12)", l, err)
	}
}

func TestNamedCuts(t *testing.T) {
	for _, tc := range []struct {
		gpu          string
		g            mig.Geometry
		fill, filled string
		balanced     string
	}{
		{"a100", a100(t), "1g.5gb", "[1g.5gb@0 1g.5gb@1 1g.5gb@2 1g.5gb@3 1g.5gb@4 1g.5gb@5 1g.5gb@6]", "[3g.20gb@4 2g.10gb@0 1g.5gb@2 1g.5gb@3]"},
		{"a30", a30(t), "1g.6gb", "[1g.6gb@0 1g.6gb@1 1g.6gb@2 1g.6gb@3]", "[2g.12gb@0 1g.6gb@2 1g.6gb@3]"},
		{"rtx-pro", rtxPro(t), "1g.24gb", "[1g.24gb@0 1g.24gb@3 1g.24gb@6 1g.24gb@9]", "[2g.48gb@0 1g.24gb@6 1g.24gb@9]"},
	} {
		p, err := tc.g.Smallest(1)
		if err != nil || p.Name != tc.fill {
			t.Errorf("%s: Smallest(1) = %s, %v; want %s", tc.gpu, p, err, tc.fill)
		}
		if l, err := tc.g.Fill(p, nil, nil); err != nil || l.String() != tc.filled {
			t.Errorf("%s: Fill = %s, %v; want %s", tc.gpu, l, err, tc.filled)
		}
		c, err := tc.g.Balanced()
		if err != nil {
			t.Fatal(err)
		}
		if l, err := tc.g.Pack(c, nil, nil); err != nil || l.String() != tc.balanced {
			t.Errorf("%s: balanced = %s, %v; want %s", tc.gpu, l, err, tc.balanced)
		}
	}
	if _, err := (mig.Geometry{}).Balanced(); err == nil {
		t.Error("balanced on a GPU without MIG: no error")
	}
}
