// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package mig

import (
	"fmt"
	"slices"
)

// atLeast takes the larger count of each engine.
func (e Engines) atLeast(o Engines) Engines {
	return Engines{
		SMs: max(e.SMs, o.SMs), Copy: max(e.Copy, o.Copy), Decoder: max(e.Decoder, o.Decoder),
		Encoder: max(e.Encoder, o.Encoder), JPEG: max(e.JPEG, o.JPEG), OFA: max(e.OFA, o.OFA),
	}
}

func (e Engines) plus(o Engines) Engines {
	return Engines{
		SMs: e.SMs + o.SMs, Copy: e.Copy + o.Copy, Decoder: e.Decoder + o.Decoder,
		Encoder: e.Encoder + o.Encoder, JPEG: e.JPEG + o.JPEG, OFA: e.OFA + o.OFA,
	}
}

// mediaWithin compares the media engines only: the driver hands SMs and copy engines out with the memory slices,
// and some boards report rounded numbers for them.
func (e Engines) mediaWithin(total Engines) bool {
	return e.Decoder <= total.Decoder && e.Encoder <= total.Encoder && e.JPEG <= total.JPEG && e.OFA <= total.OFA
}

// maxProfileIDs bounds the driver's profile ids; the largest seen is 67.
const maxProfileIDs = 256

// occupancy is what a set of slots takes from a GPU; it grows slot by slot.
type occupancy struct {
	memory  uint64
	engines Engines
	counts  [maxProfileIDs]uint8
}

func (o *occupancy) add(s Slot) {
	o.memory |= s.mask()
	o.addAnywhere(&s.Profile)
}

// addAnywhere counts an instance whose start is not decided.
func (o *occupancy) addAnywhere(p *Profile) {
	o.engines = o.engines.plus(p.Engines)
	o.counts[p.ID]++
}

// fits is the whole law of living side by side: no shared memory slice, no profile too often, enough media engines.
func (g Geometry) fits(o *occupancy, s Slot) bool {
	return o.memory&s.mask() == 0 && g.allows(o, &s.Profile)
}

// allows is the part of the law that does not ask where: one more instance of a profile, wherever it starts.
func (g Geometry) allows(o *occupancy, p *Profile) bool {
	return int(o.counts[p.ID]) < p.MaxInstances && o.engines.plus(p.Engines).mediaWithin(g.total)
}

// misfit says in words why fits said no.
func (g Geometry) misfit(o *occupancy, s Slot) error {
	if !g.allows(o, &s.Profile) {
		return g.refusal(o, &s.Profile)
	}
	return fmt.Errorf("%s overlaps another slot: %w", s, ErrNoFit)
}

// refusal says in words why allows said no.
func (g Geometry) refusal(o *occupancy, p *Profile) error {
	if n := int(o.counts[p.ID]); n >= p.MaxInstances {
		return fmt.Errorf("%d instances of %s, at most %d are possible: %w", n+1, p, p.MaxInstances, ErrNoFit)
	}
	sum := o.engines.plus(p.Engines)
	return fmt.Errorf("with %s they need %d decoders, %d encoders, %d JPEG, %d OFA; the GPU has %d, %d, %d, %d: %w",
		p, sum.Decoder, sum.Encoder, sum.JPEG, sum.OFA,
		g.total.Decoder, g.total.Encoder, g.total.JPEG, g.total.OFA, ErrNoFit)
}

// Check says why a layout is not legal on this GPU.
func (g Geometry) Check(l Layout) error {
	var o occupancy
	for _, s := range l {
		if !slices.ContainsFunc(g.legal, s.Same) {
			return fmt.Errorf("%s: %w; it has %s", s, ErrUnknownProfile, g.Describe())
		}
		if !g.fits(&o, s) {
			return g.misfit(&o, s)
		}
		o.add(s)
	}
	return nil
}

// Freedom is the sum of memory slices over the single slots that could still be added to a legal layout:
// what a GPU can still become.
func (g Geometry) Freedom(l Layout) int {
	var o occupancy
	for _, s := range l {
		o.add(s)
	}
	return g.freedom(&o)
}

func (g Geometry) freedom(o *occupancy) int {
	sum := 0
	for _, s := range g.legal {
		if g.fits(o, s) {
			sum += s.Profile.MemorySlices
		}
	}
	return sum
}
