// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package mig

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Slot is a place where an instance may be: a profile at a start, counted in memory slices.
type Slot struct {
	Profile Profile
	Start   int
}

func (s Slot) String() string { return s.Profile.Name + "@" + strconv.Itoa(s.Start) }

// Same compares by profile id and start, which stay when a driver renames its profiles.
func (s Slot) Same(o Slot) bool { return s.Profile.ID == o.Profile.ID && s.Start == o.Start }

// Overlaps says whether two slots share a memory slice.
func (s Slot) Overlaps(o Slot) bool { return s.mask()&o.mask() != 0 }

// mask has one bit per memory slice; 64 bits hold any GPU because Geometry refuses wider ones.
func (s Slot) mask() uint64 {
	return (1<<s.Profile.MemorySlices - 1) << s.Start
}

// compareSlots orders by size, largest first, then start, then id: the order in which layouts are printed and created.
func compareSlots(a, b Slot) int {
	return cmp.Or(
		cmp.Compare(b.Profile.MemorySlices, a.Profile.MemorySlices),
		cmp.Compare(b.Profile.ComputeSlices, a.Profile.ComputeSlices),
		cmp.Compare(a.Start, b.Start),
		cmp.Compare(a.Profile.ID, b.Profile.ID),
	)
}

// Layout is a set of slots, kept in printing order; build one with NewLayout.
type Layout []Slot

// NewLayout sorts the slots and drops repetitions.
func NewLayout(slots ...Slot) Layout {
	l := slices.Clone(slots)
	slices.SortFunc(l, compareSlots)
	return slices.CompactFunc(l, Slot.Same)
}

func (l Layout) String() string {
	names := make([]string, len(l))
	for i, s := range l {
		names[i] = s.String()
	}
	return "[" + strings.Join(names, " ") + "]"
}

// Has says whether the layout contains the slot.
func (l Layout) Has(s Slot) bool {
	for i := range l { // by index: a slot is large, and plans ask this often
		if l[i].Profile.ID == s.Profile.ID && l[i].Start == s.Start {
			return true
		}
	}
	return false
}

// Equal compares as sets.
func (l Layout) Equal(o Layout) bool { return slices.EqualFunc(l, o, Slot.Same) }

// Minus returns the slots of l that o lacks.
func (l Layout) Minus(o Layout) Layout {
	rest := make(Layout, 0, len(l))
	for i := range l {
		if !o.Has(l[i]) {
			rest = append(rest, l[i])
		}
	}
	return rest
}

// Counts returns how many slots there are of each profile id.
func (l Layout) Counts() Counts {
	c := Counts{}
	for _, s := range l {
		c[s.Profile.ID]++
	}
	return c
}

// Counts is how many instances of each profile id are wanted.
type Counts map[int]int
