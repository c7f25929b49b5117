// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package mig

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Pack chooses starts for the wanted counts. In this order: all of keep stays; all of want is placed; what the GPU can
// still become is largest (Freedom); fewest starts differ from last; starts are lowest, those of large profiles first.
// Slots of keep count towards want and must not exceed it.
func (g Geometry) Pack(want Counts, keep, last Layout) (Layout, error) {
	return g.arrange(want, keep, last, score.roomier)
}

// Fit is Pack for a GPU that is already cut: those in busy stay always, and as many other instances of have as still let
// all of want be placed; among equally many the choice that Pack likes best.
func (g Geometry) Fit(want Counts, busy, have Layout) (Layout, error) {
	return g.arrange(want, busy, have, score.steadier)
}

// Fill returns as many slots of one profile as fit, keeping what of it is there.
func (g Geometry) Fill(p Profile, busy, have Layout) (Layout, error) {
	var reason error
	for n := p.MaxInstances; n > 0; n-- {
		l, err := g.Fit(Counts{p.ID: n}, busy, have)
		if err == nil {
			return l, nil
		}
		reason = err
	}
	return nil, reason
}

// arrange finds the best way to place what keep lacks of want.
func (g Geometry) arrange(want Counts, keep, last Layout, better func(a, b score) bool) (Layout, error) {
	if err := g.Check(keep); err != nil {
		return nil, fmt.Errorf("keep %s: %w", keep, err)
	}
	missing, err := g.missing(want, keep)
	if err != nil {
		return nil, err
	}
	var full occupancy
	for _, s := range keep {
		full.add(s)
	}
	taken := full.memory
	for i := range missing {
		if !g.allows(&full, &missing[i]) {
			return nil, fmt.Errorf("%s: %w", g.listOf(want), g.refusal(&full, &missing[i]))
		}
		full.addAnywhere(&missing[i])
	}
	p := packer{pieces: g.pieces(missing, last), open: g.openings(&full), better: better, way: make([]int, len(missing))}
	p.search(0, 0, taken, 0)
	if p.best == nil {
		return nil, g.noRoom(want, keep)
	}
	return p.layout(keep), nil
}

// missing lists, in the order in which layouts are printed, a profile for each instance that keep does not already provide.
func (g Geometry) missing(want Counts, keep Layout) ([]Profile, error) {
	kept := keep.Counts()
	todo := []Profile{}
	for _, id := range slices.Sorted(maps.Keys(want)) {
		p, ok := g.ByID(id)
		if !ok {
			return nil, fmt.Errorf("profile id %d: %w; it has %s", id, ErrUnknownProfile, g.Describe())
		}
		if n := want[id]; n > p.MaxInstances {
			return nil, fmt.Errorf("%d instances of %s, at most %d are possible: %w", n, p, p.MaxInstances, ErrNoFit)
		}
		for range want[id] - kept[id] {
			todo = append(todo, p)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(kept)) {
		if n := kept[id]; n > want[id] {
			p, _ := g.ByID(id)
			return nil, fmt.Errorf("%d instances of %s stay, %d are wanted: %w", n, p, want[id], ErrNoFit)
		}
	}
	slices.SortStableFunc(todo, func(a, b Profile) int {
		return cmp.Or(cmp.Compare(b.MemorySlices, a.MemorySlices), cmp.Compare(b.ComputeSlices, a.ComputeSlices))
	})
	return todo, nil
}

// listOf names what is wanted: "1g.10gb x3, 3g.40gb x1".
func (g Geometry) listOf(want Counts) string {
	names := []string{}
	for _, id := range slices.Sorted(maps.Keys(want)) {
		p, _ := g.ByID(id)
		names = append(names, fmt.Sprintf("%s x%d", p, want[id]))
	}
	return strings.Join(names, ", ")
}

func (g Geometry) noRoom(want Counts, keep Layout) error {
	beside := ""
	if len(keep) > 0 {
		beside = " around " + keep.String()
	}
	return fmt.Errorf("%s%s: %w; the GPU has %s", g.listOf(want), beside, ErrNoFit, g.Describe())
}
