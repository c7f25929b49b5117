// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package topology

// MaxExact is up to how many GPUs of a node the choice is exact: the tables for 16 take 1.8 MB, and every more doubles them.
const MaxExact = 16

// exact is everything about a node that a choice needs, computed beforehand, so that a choice only compares.
type exact struct {
	// within is the sum of the scores of all pairs in a set, by the set.
	within []int32
	// divided is the best sum that a set has left when it is cut up into sets of one size and one smaller rest: by the size,
	// then by the set. Sets of one GPU have no links, and sets that are no larger than the size are not cut up; there it is nil.
	divided [][]int32
}

func newExact(scores [][]int32) *exact {
	n := len(scores)
	e := &exact{within: make([]int32, 1<<n), divided: make([][]int32, n+1)}
	for s := set(1); s < 1<<n; s++ {
		a := s.first()
		rest := s &^ a
		if b := rest.first(); b != 0 { // pairs with both of a and b are counted twice, the one of a and b not yet
			e.within[s] = e.within[rest] + e.within[s&^b] - e.within[rest&^b] + scores[a.index()][b.index()]
		}
	}
	for size := 2; 2*size < n; size++ {
		e.divided[size] = e.divide(n, size)
	}
	return e
}

func (e *exact) divide(n, size int) []int32 {
	best := make([]int32, 1<<n)
	for s := range set(1 << n) {
		switch k := s.len(); {
		case k <= size:
			best[s] = e.within[s]
		case k <= n-size: // nobody asks for more: a set of the size is taken first
			best[s] = max(e.divideFrom(best, s, size), e.divideFrom(best, s, k%size))
		}
	}
	return best
}

// divideFrom is the best sum when the set's first member goes into a part of the given size.
func (e *exact) divideFrom(divided []int32, s set, size int) (best int32) {
	first := s.first()
	for others := range (s &^ first).subsets(size - 1) {
		part := first | others
		best = max(best, e.within[part]+divided[s&^part])
	}
	return best
}

// left is the best sum that what remains can have when sets of the size are asked for again and again.
func (e *exact) left(rest set, size int) int32 {
	switch {
	case rest.len() <= size:
		return e.within[rest]
	case size < 2:
		return 0
	}
	return e.divided[size][rest]
}

// sumBits is how many bits a sum needs: 120 pairs of 16 GPUs have at most 1,860 each.
const sumBits = 18

// choose adds want of free to held so that, in this order: cutting up all of them into sets of that size keeps most; the set
// itself is the best linked; what remains is the best linked; the set is the first.
func (e *exact) choose(free, held set, want int) set {
	all, size := free|held, held.len()+want
	chosen, best := set(0), int64(-1)
	for added := range free.subsets(want) {
		s := held | added
		rest := all &^ s
		own := int64(e.within[s])
		rank := (own+int64(e.left(rest, size)))<<(2*sumBits) | own<<sumBits | int64(e.within[rest])
		if rank > best {
			chosen, best = s, rank
		}
	}
	return chosen
}
