// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package mig_test

import (
	"errors"
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
		{"where it makes no difference, nothing moves", map[string]int{"3g.20gb": 1, "1g.5gb": 3}, "[]", "[1g.5gb@1 1g.5gb@2 1g.5gb@3]", "[3g.20gb@4 1g.5gb@1 1g.5gb@2 1g.5gb@3]"},
		{"room goes before what was", map[string]int{"3g.20gb": 1}, "[]", "[3g.20gb@0]", "[3g.20gb@4]"},
	} {
		got, err := g.Pack(counts(t, g, tc.want), parse(t, g, tc.keep), parse(t, g, tc.last))
		if err != nil || got.String() != tc.layout {
			t.Errorf("%s: Pack = %s, %v; want %s", tc.name, got, err, tc.layout)
		}
	}
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
	for _, tc := range []struct {
		g             mig.Geometry
		fill, filled  string
		busy, instead string
	}{
		{rtxPro(t), "1g.24gb+me", "[1g.24gb+me@0]", "[1g.24gb+me@6]", "[1g.24gb+me@6]"},
		{rtxPro(t), "1g.24gb+me.all", "[1g.24gb+me.all@0]", "[1g.24gb+me.all@9]", "[1g.24gb+me.all@9]"},
		{rtxPro(t), "1g.24gb-me", "[1g.24gb-me@0 1g.24gb-me@3 1g.24gb-me@6 1g.24gb-me@9]", "[]", "[1g.24gb-me@0 1g.24gb-me@3 1g.24gb-me@6 1g.24gb-me@9]"},
		{rtxPro(t), "1g.24gb+gfx", "[1g.24gb+gfx@0 1g.24gb+gfx@3 1g.24gb+gfx@6 1g.24gb+gfx@9]", "[]", "[1g.24gb+gfx@0 1g.24gb+gfx@3 1g.24gb+gfx@6 1g.24gb+gfx@9]"},
		{rtxPro(t), "2g.48gb-me", "[2g.48gb-me@0 2g.48gb-me@6]", "[2g.48gb-me@6]", "[2g.48gb-me@0 2g.48gb-me@6]"},
		{a30(t), "2g.12gb+me", "[2g.12gb+me@0]", "[2g.12gb+me@2]", "[2g.12gb+me@2]"},
		{a100(t), "1g.10gb", "[1g.10gb@0 1g.10gb@2 1g.10gb@4 1g.10gb@6]", "[1g.10gb@6]", "[1g.10gb@0 1g.10gb@2 1g.10gb@4 1g.10gb@6]"},
	} {
		p, _, err := tc.g.Resolve(tc.fill)
		if err != nil {
			t.Fatal(err)
		}
		if l, err := tc.g.Fill(p, nil, nil); err != nil || l.String() != tc.filled {
			t.Errorf("fill %s = %s, %v; want %s", tc.fill, l, err, tc.filled)
		}
		busy := parse(t, tc.g, tc.busy)
		if l, err := tc.g.Fill(p, busy, busy); err != nil || l.String() != tc.instead {
			t.Errorf("fill %s around %s = %s, %v; want %s", tc.fill, tc.busy, l, err, tc.instead)
		}
	}
	if _, err := (mig.Geometry{}).Balanced(); err == nil {
		t.Error("balanced on a GPU without MIG: no error")
	}
}

// A GPU of a size that nobody knows costs a bounded search, and what fits is still found.
func TestUnknownSizesAreBounded(t *testing.T) {
	starts := span(0, 62, 1)
	g := geometry(t,
		offer(1, "1g.1gb", 1, 1, 63, mig.Engines{}, starts),
		offer(2, "1g.1gb+me", 1, 1, 63, mig.Engines{}, starts),
		offer(3, "1g.1gb-me", 1, 1, 63, mig.Engines{}, starts),
	)
	l, err := g.Fit(mig.Counts{1: 20, 2: 20, 3: 20}, parse(t, g, "[1g.1gb@31]"), parse(t, g, "[1g.1gb@31 1g.1gb@40]"))
	if err != nil || len(l) != 60 || g.Check(l) != nil {
		t.Errorf("Fit = %s, %v", l, err)
	}
}
