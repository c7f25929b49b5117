// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package mig_test

import (
	"bytes"
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"gpuslice/pkg/mig"
)

// every takes all profiles.
func every(mig.Profile) bool { return true }

// geometries are the three shapes of GPUs that can be cut, by the model that stands for them in the simulator.
func geometries(t testing.TB) map[string]mig.Geometry {
	return map[string]mig.Geometry{
		"a30-24gb": a30(t), "a100-sxm4-40gb": a100(t), "rtx-pro-6000-blackwell-se-96gb": rtxPro(t),
	}
}

// oracle is what may stand on a GPU and what is best, found by trying everything, without asking the package under test.
// A layout is a set of bits over slots.
type oracle struct {
	slots   []mig.Slot
	placed  []uint64       // every layout in which no two slots overlap and no profile is there too often
	legal   []uint64       // those of them whose media engines the GPU has
	freedom map[uint64]int // of every legal layout
	names   []string       // of the slots
	bit     [256][]int     // by profile id and start
}

// newOracle tries every set of slots: each memory slice belongs to one instance at most, no profile is there too often,
// and all media engines together are at most those of the instance that takes the whole GPU.
func newOracle(t testing.TB, g mig.Geometry, with func(mig.Profile) bool) *oracle {
	t.Helper()
	o := &oracle{slots: g.Slots(), freedom: map[uint64]int{}}
	var all mig.Engines
	for _, s := range o.slots {
		if s.Profile.ID == 0 { // on all three the whole GPU
			all = s.Profile.Engines
		}
	}
	o.slots = slices.DeleteFunc(o.slots, func(s mig.Slot) bool { return !with(s.Profile) })
	for i, s := range o.slots {
		if o.bit[s.Profile.ID] == nil {
			o.bit[s.Profile.ID] = make([]int, 16)
		}
		o.bit[s.Profile.ID][s.Start] = i
		o.names = append(o.names, s.String())
	}
	o.grow(0, 0)
	for _, bits := range o.placed {
		if o.hasEngines(bits, all) {
			o.legal = append(o.legal, bits)
			o.freedom[bits] = 0
		}
	}
	for _, bits := range o.legal {
		for i, s := range o.slots {
			if _, legal := o.freedom[bits|1<<i]; legal && bits&(1<<i) == 0 {
				o.freedom[bits] += s.Profile.MemorySlices
			}
		}
	}
	return o
}

func (o *oracle) grow(from int, bits uint64) {
	o.placed = append(o.placed, bits)
	for i := from; i < len(o.slots); i++ {
		if o.hasRoom(bits | 1<<i) {
			o.grow(i+1, bits|1<<i)
		}
	}
}

func (o *oracle) hasRoom(bits uint64) bool {
	var taken [16]bool
	var counts [256]int
	for _, s := range o.set(bits) {
		for at := s.Start; at < s.Start+s.Profile.MemorySlices; at++ {
			if taken[at] {
				return false
			}
			taken[at] = true
		}
		if counts[s.Profile.ID]++; counts[s.Profile.ID] > s.Profile.MaxInstances {
			return false
		}
	}
	return true
}

func (o *oracle) hasEngines(bits uint64, all mig.Engines) bool {
	for _, of := range []func(mig.Engines) int{
		func(e mig.Engines) int { return e.Decoder },
		func(e mig.Engines) int { return e.Encoder },
		func(e mig.Engines) int { return e.JPEG },
		func(e mig.Engines) int { return e.OFA },
	} {
		sum := 0
		for _, s := range o.set(bits) {
			sum += of(s.Profile.Engines)
		}
		if sum > of(all) {
			return false
		}
	}
	return true
}

func (o *oracle) set(bits uint64) []mig.Slot {
	chosen := []mig.Slot{}
	for i, s := range o.slots {
		if bits&(1<<i) != 0 {
			chosen = append(chosen, s)
		}
	}
	return chosen
}

func (o *oracle) layout(bits uint64) mig.Layout { return mig.NewLayout(o.set(bits)...) }

func (o *oracle) bits(l mig.Layout) uint64 {
	bits := uint64(0)
	for _, s := range l {
		bits |= 1 << o.bit[s.Profile.ID][s.Start]
	}
	return bits
}

// starts lists the starts of a layout profile by profile, the largest profiles first: what "lowest starts" compares.
func (o *oracle) starts(bits uint64) []byte {
	chosen := o.set(bits)
	slices.SortFunc(chosen, func(a, b mig.Slot) int {
		return cmp.Or(
			cmp.Compare(b.Profile.MemorySlices, a.Profile.MemorySlices),
			cmp.Compare(b.Profile.ComputeSlices, a.Profile.ComputeSlices),
			cmp.Compare(a.Profile.ID, b.Profile.ID),
			cmp.Compare(a.Start, b.Start),
		)
	})
	starts := make([]byte, len(chosen))
	for i, s := range chosen {
		starts[i] = byte(s.Start)
	}
	return starts
}

// wish is one multiset of profiles and every layout that has it, lowest starts first.
type wish struct {
	counts mig.Counts
	ways   []way
}

type way struct {
	bits    uint64
	freedom int
}

func (o *oracle) wishes() []wish {
	byCounts := map[string]*wish{}
	for _, bits := range o.legal {
		counts := mig.Counts{}
		for _, s := range o.set(bits) {
			counts[s.Profile.ID]++
		}
		key := countKey(counts)
		if byCounts[key] == nil {
			byCounts[key] = &wish{counts: counts}
		}
		byCounts[key].ways = append(byCounts[key].ways, way{bits, o.freedom[bits]})
	}
	all := []wish{}
	for _, key := range slices.Sorted(maps.Keys(byCounts)) {
		w := *byCounts[key]
		slices.SortFunc(w.ways, func(a, b way) int { return bytes.Compare(o.starts(a.bits), o.starts(b.bits)) })
		all = append(all, w)
	}
	return all
}

func countKey(c mig.Counts) string {
	key := make([]byte, 70)
	for id, n := range c {
		key[id] = byte(n)
	}
	return string(key)
}

// around is a random legal layout that has the given slots.
func (o *oracle) around(random *rand.Rand, keep uint64) uint64 {
	for _, i := range random.Perm(len(o.slots))[:len(o.slots)/2] {
		if _, legal := o.freedom[keep|1<<i]; legal {
			keep |= 1 << i
		}
	}
	return keep
}
