// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package mig

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"
)

// Pack chooses starts for the wanted counts. In this order: all of keep stays; all of want is placed; what the GPU can
// still become is largest (Freedom); fewest starts differ from last; starts are lowest. Slots of keep count towards want
// and must not exceed it.
func (g Geometry) Pack(want Counts, keep, last Layout) (Layout, error) {
	if err := g.Check(keep); err != nil {
		return nil, fmt.Errorf("keep %s: %w", keep, err)
	}
	missing, err := g.missing(want, keep)
	if err != nil {
		return nil, err
	}
	p := packer{geometry: g, keep: keep, last: last, todo: missing}
	for _, s := range keep {
		p.taken.add(s)
	}
	p.search(p.taken, nil, 0)
	if p.best == nil {
		return nil, g.noRoom(want, keep)
	}
	return p.best.layout, nil
}

// missing lists, largest first, a profile for each instance that keep does not already provide.
func (g Geometry) missing(want Counts, keep Layout) ([]Profile, error) {
	kept := keep.Counts()
	todo := []Profile{}
	for id, n := range want {
		p, ok := g.ByID(id)
		if !ok {
			return nil, fmt.Errorf("profile id %d: %w; it has %s", id, ErrUnknownProfile, g.Describe())
		}
		if n > p.MaxInstances {
			return nil, fmt.Errorf("%d instances of %s, at most %d are possible: %w", n, p, p.MaxInstances, ErrNoFit)
		}
		for range n - kept[id] {
			todo = append(todo, p)
		}
	}
	for id, n := range kept {
		if n > want[id] {
			p, _ := g.ByID(id)
			return nil, fmt.Errorf("%d instances of %s stay, %d are wanted: %w", n, p, want[id], ErrNoFit)
		}
	}
	slices.SortFunc(todo, func(a, b Profile) int {
		return cmp.Or(cmp.Compare(b.MemorySlices, a.MemorySlices), cmp.Compare(a.ID, b.ID))
	})
	return todo, nil
}

func (g Geometry) noRoom(want Counts, keep Layout) error {
	names := []string{}
	for _, id := range slices.Sorted(maps.Keys(want)) {
		p, _ := g.ByID(id)
		names = append(names, fmt.Sprintf("%s x%d", p, want[id]))
	}
	beside := ""
	if len(keep) > 0 {
		beside = " around " + keep.String()
	}
	return fmt.Errorf("%s%s: %w; the GPU has %s", strings.Join(names, ", "), beside, ErrNoFit, g.Describe())
}

// packer walks every way to place todo and remembers the best.
type packer struct {
	geometry   Geometry
	keep, last Layout
	todo       []Profile
	taken      occupancy
	best       *packing
}

type packing struct {
	layout  Layout
	freedom int
	moved   int
}

// search places todo[len(placed):]; instances of one profile are placed at rising starts, so each set is seen once.
func (p *packer) search(o occupancy, placed []Slot, from int) {
	if len(placed) == len(p.todo) {
		p.consider(&o, placed)
		return
	}
	profile := p.todo[len(placed)]
	for _, start := range p.geometry.starts(profile.ID) {
		s := Slot{Profile: profile, Start: start}
		if start < from || !p.geometry.fits(&o, s) {
			continue
		}
		next := o
		next.add(s)
		from := 0
		if n := len(placed) + 1; n < len(p.todo) && p.todo[n].ID == profile.ID {
			from = start + 1
		}
		p.search(next, append(placed, s), from)
	}
}

func (p *packer) consider(o *occupancy, placed []Slot) {
	c := &packing{freedom: p.geometry.freedom(o)}
	if p.best != nil && c.freedom < p.best.freedom {
		return
	}
	c.layout = NewLayout(append(slices.Clone(p.keep), placed...)...)
	c.moved = len(c.layout.Minus(p.last))
	if p.best == nil || c.better(p.best) {
		p.best = c
	}
}

func (c *packing) better(o *packing) bool {
	return cmp.Or(
		cmp.Compare(o.freedom, c.freedom),
		cmp.Compare(c.moved, o.moved),
		slices.CompareFunc(c.layout, o.layout, func(a, b Slot) int { return cmp.Compare(a.Start, b.Start) }),
	) < 0
}

// Fit is Pack for a GPU that is already cut: as many of the instances in have stay as still let all of want be placed,
// those in busy always, and among equally many the choice that Pack likes best.
func (g Geometry) Fit(want Counts, busy, have Layout) (Layout, error) {
	idle := Layout{}
	for _, s := range have.Minus(busy) {
		if want[s.Profile.ID] > 0 {
			idle = append(idle, s)
		}
	}
	var reason error
	for size := len(idle); size >= 0; size-- {
		var best *packing
		for subset := range subsets(len(idle), size) {
			keep := slices.Clone(busy)
			for i, s := range idle {
				if subset&(1<<i) != 0 {
					keep = append(keep, s)
				}
			}
			l, err := g.Pack(want, NewLayout(keep...), have)
			if err != nil {
				reason = err
				continue
			}
			c := &packing{layout: l, freedom: g.Freedom(l), moved: len(l.Minus(have))}
			if best == nil || c.better(best) {
				best = c
			}
		}
		if best != nil {
			return best.layout, nil
		}
	}
	return nil, reason
}

// subsets yields every bit set of the given size over n elements.
func subsets(n, size int) func(yield func(uint) bool) {
	return func(yield func(uint) bool) {
		for set := range uint(1) << n {
			if bits.OnesCount(set) == size && !yield(set) {
				return
			}
		}
	}
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

// Smallest returns the plain profile of a slice count that can be had most often: what "1g" means on this GPU.
func (g Geometry) Smallest(computeSlices int) (Profile, error) {
	var best Profile
	for _, o := range g.offers {
		if p := o.Profile; p.Plain() && p.ComputeSlices == computeSlices && p.MaxInstances > best.MaxInstances {
			best = p
		}
	}
	if best.MaxInstances == 0 {
		return Profile{}, fmt.Errorf("%dg: %w; it has %s", computeSlices, ErrUnknownProfile, g.Describe())
	}
	return best, nil
}

// Balanced is the mixed cut: two of the smallest, one of two slices and one of three on GPUs with seven compute slices,
// two of the smallest and one of two slices on GPUs with four.
func (g Geometry) Balanced() (Counts, error) {
	sizes := []int{1, 1, 2, 3}
	switch n := g.ComputeSlices(); n {
	case 7:
	case 4:
		sizes = sizes[:3]
	default:
		return nil, fmt.Errorf("balanced is defined for GPUs of 7 or 4 compute slices, this one has %d; it has %s", n, g.Describe())
	}
	c := Counts{}
	for _, n := range sizes {
		p, err := g.Smallest(n)
		if err != nil {
			return nil, err
		}
		c[p.ID]++
	}
	return c, nil
}
