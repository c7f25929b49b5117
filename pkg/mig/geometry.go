// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package mig

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ErrNoFit is wrapped by every error that says that slots cannot stand side by side on a GPU.
var ErrNoFit = errors.New("does not fit")

// ErrUnknownProfile is wrapped by every error about a profile or start that a GPU does not have.
var ErrUnknownProfile = errors.New("not a profile of this GPU")

const maxMemorySlices = 63

// Offer is a profile together with the starts that the driver allows for it.
type Offer struct {
	Profile Profile
	Starts  []int
}

// Geometry is every legal slot of one GPU. The zero value is a GPU that cannot be cut.
type Geometry struct {
	offers []Offer
	total  Engines
	legal  []Slot
}

// NewGeometry checks what the driver said and refuses spans that no GPU can have.
func NewGeometry(offers []Offer) (Geometry, error) {
	g := Geometry{offers: slices.Clone(offers)}
	slices.SortFunc(g.offers, func(a, b Offer) int {
		return cmp.Or(
			cmp.Compare(a.Profile.ComputeSlices, b.Profile.ComputeSlices),
			cmp.Compare(a.Profile.MemorySlices, b.Profile.MemorySlices),
			cmp.Compare(a.Profile.ID, b.Profile.ID),
		)
	})
	for i, o := range g.offers {
		p := o.Profile
		o.Starts = slices.Sorted(slices.Values(o.Starts))
		g.offers[i] = o
		if p.ID < 0 || p.ID >= maxProfileIDs {
			return Geometry{}, fmt.Errorf("profile %s has id %d, ids are below %d", p.Name, p.ID, maxProfileIDs)
		}
		if p.MemorySlices < 1 || p.ComputeSlices < 1 || p.MaxInstances < 0 {
			return Geometry{}, fmt.Errorf("profile %s (id %d) has %d memory slices, %d compute slices, %d instances",
				p.Name, p.ID, p.MemorySlices, p.ComputeSlices, p.MaxInstances)
		}
		for _, start := range o.Starts {
			if start < 0 || start+p.MemorySlices > maxMemorySlices {
				return Geometry{}, fmt.Errorf("profile %s (id %d) starts at %d", p.Name, p.ID, start)
			}
			g.legal = append(g.legal, Slot{Profile: p, Start: start})
		}
		g.total = g.total.atLeast(p.Engines)
	}
	return g, nil
}

// Offers lists the profiles, small ones first.
func (g Geometry) Offers() []Offer { return slices.Clone(g.offers) }

// Slots lists every legal slot.
func (g Geometry) Slots() []Slot { return slices.Clone(g.legal) }

// IsZero says that the GPU cannot be cut.
func (g Geometry) IsZero() bool { return len(g.offers) == 0 }

// ComputeSlices is the largest number of compute slices that one instance can have: 7 or 4 on the GPUs known today.
func (g Geometry) ComputeSlices() int {
	n := 0
	for _, o := range g.offers {
		n = max(n, o.Profile.ComputeSlices)
	}
	return n
}

// ByID finds a profile by the driver's id.
func (g Geometry) ByID(id int) (Profile, bool) {
	i := slices.IndexFunc(g.offers, func(o Offer) bool { return o.Profile.ID == id })
	if i < 0 {
		return Profile{}, false
	}
	return g.offers[i].Profile, true
}

// Resolve finds a profile by name. A name whose size is 1 GB off is accepted when exactly one profile is meant;
// warning then says what was taken. Names depend on the memory that the driver reports, so they differ between boards.
func (g Geometry) Resolve(name string) (p Profile, warning string, err error) {
	near := []Profile{}
	slicesWanted, gb, attribute, ok := splitName(name)
	for _, o := range g.offers {
		if o.Profile.Name == name {
			return o.Profile, "", nil
		}
		s, size, a, known := splitName(o.Profile.Name)
		if ok && known && s == slicesWanted && a == attribute && (size == gb+1 || size == gb-1) {
			near = append(near, o.Profile)
		}
	}
	if len(near) == 1 {
		return near[0], fmt.Sprintf("%s is called %s on this GPU", name, near[0].Name), nil
	}
	return Profile{}, "", fmt.Errorf("%q: %w; it has %s", name, ErrUnknownProfile, g.Describe())
}

// Describe lists the profiles with their counts, as error messages show them: "1g.10gb x7, 2g.20gb x3".
func (g Geometry) Describe() string {
	if g.IsZero() {
		return "none: it is not MIG capable"
	}
	parts := make([]string, len(g.offers))
	for i, o := range g.offers {
		parts[i] = fmt.Sprintf("%s x%d", o.Profile.Name, o.Profile.MaxInstances)
	}
	return strings.Join(parts, ", ")
}

// ParseSlot reads "3g.40gb@4".
func (g Geometry) ParseSlot(text string) (Slot, string, error) {
	name, at, found := strings.Cut(text, "@")
	start, err := strconv.Atoi(at)
	if !found || err != nil {
		return Slot{}, "", fmt.Errorf("slot %q is not of the form PROFILE@START, such as 1g.10gb@0", text)
	}
	p, warning, err := g.Resolve(name)
	if err != nil {
		return Slot{}, "", err
	}
	s := Slot{Profile: p, Start: start}
	if !slices.ContainsFunc(g.legal, s.Same) {
		return Slot{}, "", fmt.Errorf("%s: %w; %s may start at %v", s, ErrUnknownProfile, p.Name, g.starts(p.ID))
	}
	return s, warning, nil
}

// ParseLayout reads "[3g.40gb@4 1g.10gb@0]".
func (g Geometry) ParseLayout(text string) (Layout, error) {
	inner, ok := strings.CutPrefix(strings.TrimSpace(text), "[")
	inner, closed := strings.CutSuffix(inner, "]")
	if !ok || !closed {
		return nil, fmt.Errorf("layout %q does not stand in brackets", text)
	}
	all := []Slot{}
	for field := range strings.FieldsSeq(inner) {
		s, _, err := g.ParseSlot(field)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return NewLayout(all...), nil
}

func (g Geometry) starts(id int) []int {
	for _, o := range g.offers {
		if o.Profile.ID == id {
			return o.Starts
		}
	}
	return nil
}
