// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package mig_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuslice/pkg/mig"
)

// The counts are facts about these GPUs, found by counting by hand-written rules of another program; the empty layout is one.
// On some GPUs there are layouts that have room and not the media engines; exactly those are refused for that.
func TestLegalLayouts(t *testing.T) {
	for _, tc := range []struct {
		name          string
		g             mig.Geometry
		with          func(mig.Profile) bool
		placed, legal int
	}{
		{"A30", a30(t), every, 84, 76},
		{"A100-40GB", a100(t), every, 2319, 2319},
		{"A100-40GB without +me", a100(t), mig.Profile.Plain, 723, 723},
		{"RTX PRO 6000", rtxPro(t), every, 1249, 717},
	} {
		o := newOracle(t, tc.g, tc.with)
		if len(o.placed) != tc.placed || len(o.legal) != tc.legal {
			t.Errorf("%s: brute force finds %d layouts, %d with enough engines; want %d and %d", tc.name, len(o.placed), len(o.legal), tc.placed, tc.legal)
		}
		for _, bits := range o.placed {
			l := o.layout(bits)
			_, legal := o.freedom[bits]
			if err := tc.g.Check(l); legal != (err == nil) || err != nil && !strings.Contains(err.Error(), "decoders") {
				t.Fatalf("%s: Check(%s) = %v, brute force says legal=%v", tc.name, l, err, legal)
			}
			if back := parse(t, tc.g, l.String()); !back.Equal(l) {
				t.Fatalf("%s: parse(%s) = %s", tc.name, l, back)
			}
		}
	}
}

// Every legal layout plus one slot is legal exactly if brute force knows it, and Freedom counts those that are.
func TestCheckRefusesWhatBruteForceDoes(t *testing.T) {
	for name, g := range geometries(t) {
		o := newOracle(t, g, every)
		for _, bits := range o.legal {
			for i := range o.slots {
				if bits&(1<<i) != 0 {
					continue
				}
				_, legal := o.freedom[bits|1<<i]
				if err := g.Check(o.layout(bits | 1<<i)); (err == nil) != legal {
					t.Fatalf("%s: Check(%s) = %v, brute force says legal=%v", name, o.layout(bits|1<<i), err, legal)
				}
			}
			if got := g.Freedom(o.layout(bits)); got != o.freedom[bits] {
				t.Fatalf("%s: Freedom(%s) = %d, brute force says %d", name, o.layout(bits), got, o.freedom[bits])
			}
		}
	}
}

func TestMediaEngines(t *testing.T) {
	g := rtxPro(t)
	for _, tc := range []struct {
		layout string
		legal  bool
		why    string
	}{
		{"[1g.24gb+me.all@0 1g.24gb-me@3 1g.24gb-me@6 1g.24gb-me@9]", true, "one instance takes all engines, the others need none"},
		{"[1g.24gb+me.all@0 1g.24gb@3]", false, "the second would need a decoder that is gone"},
		{"[1g.24gb+me@0 1g.24gb@3 1g.24gb@6 1g.24gb@9]", true, "four decoders, one OFA"},
		{"[2g.48gb+me.all@0 2g.48gb-me@6]", true, "halves follow the same rule"},
		{"[2g.48gb+me.all@0 2g.48gb@6]", false, "six decoders on a GPU of four"},
	} {
		if err := g.Check(parse(t, g, tc.layout)); (err == nil) != tc.legal {
			t.Errorf("Check(%s) = %v, want legal=%v: %s", tc.layout, err, tc.legal, tc.why)
		}
	}
}

func TestResolve(t *testing.T) {
	g := a100(t)
	for _, tc := range []struct {
		name, want, warning, why string
	}{
		{"3g.20gb", "3g.20gb", "", "the driver's own name"},
		{"7g.39gb", "7g.40gb", "is called 7g.40gb", "names depend on reported memory, one GB off is the same profile (M01)"},
		{"7g.41gb", "7g.40gb", "is called 7g.40gb", "the other side of the rounding edge (M01)"},
		{"1g.5gb+me", "1g.5gb+me", "", "an attribute is part of the name"},
		{"1g.4gb+me", "1g.5gb+me", "is called 1g.5gb+me", "aliases keep the attribute"},
	} {
		p, warning, err := g.Resolve(tc.name)
		if err != nil || p.Name != tc.want || !strings.Contains(warning, tc.warning) || (tc.warning == "") != (warning == "") {
			t.Errorf("Resolve(%s) = %s, %q, %v; want %s, %q: %s", tc.name, p, warning, err, tc.want, tc.warning, tc.why)
		}
	}
	for _, name := range []string{"2g.20gb", "3g.20gb+me", "1c.3g.20gb", "", "g.gb", "1g.5gbx", "3g.18gb"} {
		_, _, err := g.Resolve(name)
		if !errors.Is(err, mig.ErrUnknownProfile) || !strings.Contains(err.Error(), "3g.20gb x2") {
			t.Errorf("Resolve(%q) = %v; want the list of what the GPU has (M07)", name, err)
		}
	}
}

// M08: five variants of one profile keep five legal resource names, and the way back is unambiguous.
func TestResourceSuffixIsBijective(t *testing.T) {
	seen := map[string]string{}
	for _, o := range rtxPro(t).Offers() {
		suffix := o.Profile.ResourceSuffix()
		if other, taken := seen[suffix]; taken {
			t.Errorf("%s and %s both become %s", o.Profile, other, suffix)
		}
		seen[suffix] = o.Profile.Name
		if strings.Contains(suffix, "+") {
			t.Errorf("%s: '+' is not legal in a resource name", suffix)
		}
	}
	if seen["1g.24gb.me.all"] != "1g.24gb+me.all" || seen["1g.24gb-me"] != "1g.24gb-me" {
		t.Errorf("names are %v", seen)
	}
}

func TestGeometryRefusesNonsense(t *testing.T) {
	for name, p := range map[string]mig.Offer{
		"no memory":     {Profile: mig.Profile{ID: 1, Name: "x", ComputeSlices: 1}},
		"id out of map": {Profile: mig.Profile{ID: 256, Name: "x", ComputeSlices: 1, MemorySlices: 1}},
		"negative id":   {Profile: mig.Profile{ID: -1, Name: "x", ComputeSlices: 1, MemorySlices: 1}},
		"beyond 63":     {Profile: mig.Profile{ID: 1, Name: "x", ComputeSlices: 1, MemorySlices: 8}, Starts: []int{60}},
		"before 0":      {Profile: mig.Profile{ID: 1, Name: "x", ComputeSlices: 1, MemorySlices: 8}, Starts: []int{-1}},
	} {
		if _, err := mig.NewGeometry([]mig.Offer{p}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestParseLayoutSaysWhatIsWrong(t *testing.T) {
	g := a100(t)
	for text, part := range map[string]string{
		"3g.20gb@0":     "brackets",
		"[3g.20gb]":     "PROFILE@START",
		"[3g.20gb@x]":   "PROFILE@START",
		"[3g.20gb@1]":   "may start at [0 4]",
		"[9g.99gb@0]":   "it has 1g.5gb x7",
		"[3g.20gb@0 ":   "brackets",
		"[1g.5gb@7000]": "may start at [0 1 2 3 4 5 6]",
	} {
		if _, err := g.ParseLayout(text); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("ParseLayout(%q) = %v, want a message with %q", text, err, part)
		}
	}
}

func FuzzParseLayout(f *testing.F) {
	g := a100(f)
	f.Add("[3g.20gb@0 1g.5gb+me@4]")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := g.ParseLayout(text)
		if err != nil {
			return
		}
		if diff := cmp.Diff(l, parse(t, g, l.String())); diff != "" {
			t.Error(diff)
		}
	})
}
