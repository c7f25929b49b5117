// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package mig

import "slices"

// packer walks every way to place its pieces and remembers the best.
//
// How often a profile may be there and who gets the media engines is the same for every way, so it is settled before;
// what the ways differ in is memory, one bit per slice.
type packer struct {
	pieces []piece
	open   []opening
	better func(a, b score) bool
	way    []int // the start of each piece, down to where the search is
	best   *packing
	steps  int
}

// piece is an instance to be placed.
type piece struct {
	profile *Profile
	spots   []spot
	// twin says that the piece before is of the same profile: their starts rise, so that each set is seen once.
	twin bool
}

// spot is a place where a piece may be.
type spot struct {
	memory uint64
	start  int
	stays  int // 1 when the layout before has this slot
}

// opening is a slot that could be added when all pieces are placed, if its memory is free.
type opening struct {
	memory uint64
	slices int
}

// score is what a way is worth.
type score struct {
	freedom int
	stays   int // pieces that are where they were
}

// packing is a way and its score.
type packing struct {
	score
	way []int
}

// roomier prefers what the GPU can still become to what moves.
func (a score) roomier(b score) bool {
	return a.freedom > b.freedom || a.freedom == b.freedom && a.stays > b.stays
}

// steadier prefers what does not move to what the GPU can still become.
func (a score) steadier(b score) bool {
	return a.stays > b.stays || a.stays == b.stays && a.freedom > b.freedom
}

// maxSteps ends a search on a GPU of a size that nobody knows, with the best that was found until then: known GPUs need
// hundreds of steps at most.
const maxSteps = 1 << 20

func (g Geometry) pieces(missing []Profile, last Layout) []piece {
	all := make([]piece, len(missing))
	for i := range missing {
		p := &missing[i]
		if i > 0 && all[i-1].profile.ID == p.ID {
			all[i] = all[i-1]
			all[i].twin = true
			continue
		}
		all[i] = piece{profile: p}
		for _, start := range g.starts(p.ID) {
			at := Slot{Profile: *p, Start: start}
			here := spot{memory: at.mask(), start: start}
			if last.Has(at) {
				here.stays = 1
			}
			all[i].spots = append(all[i].spots, here)
		}
	}
	return all
}

func (g Geometry) openings(full *occupancy) []opening {
	all := make([]opening, 0, len(g.legal))
	for i := range g.legal {
		if s := &g.legal[i]; g.allows(full, &s.Profile) {
			all = append(all, opening{memory: s.mask(), slices: s.Profile.MemorySlices})
		}
	}
	return all
}

// search places the pieces from index i on. Pieces come large first and starts rise, so that of two ways with one score
// the first one seen has the lower starts.
func (p *packer) search(i, from int, taken uint64, stays int) {
	if p.steps++; p.steps > maxSteps {
		return
	}
	if i == len(p.pieces) {
		p.consider(taken, stays)
		return
	}
	if !p.pieces[i].twin {
		from = 0
	}
	for at := from; at < len(p.pieces[i].spots); at++ {
		if s := &p.pieces[i].spots[at]; taken&s.memory == 0 {
			p.way[i] = s.start
			p.search(i+1, at+1, taken|s.memory, stays+s.stays)
		}
	}
}

func (p *packer) consider(taken uint64, stays int) {
	c := score{stays: stays}
	for _, o := range p.open {
		if o.memory&taken == 0 {
			c.freedom += o.slices
		}
	}
	if p.best == nil || p.better(c, p.best.score) {
		p.best = &packing{score: c, way: slices.Clone(p.way)}
	}
}

func (p *packer) layout(keep Layout) Layout {
	slots := slices.Clone(keep)
	for i, start := range p.best.way {
		slots = append(slots, Slot{Profile: *p.pieces[i].profile, Start: start})
	}
	return NewLayout(slots...)
}
