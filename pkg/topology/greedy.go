// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package topology

import "cmp"

// maxSeeds bounds from how many GPUs a set is grown.
const maxSeeds = 64

// greedy is for nodes of more GPUs than an exact choice can have. It grows a set from every GPU, or from what is held, by the
// GPU with the best links to the set, and of equals the one that leaves least behind; it keeps the best set.
func greedy(scores [][]int32, free, held []int, want int) []int {
	if len(held) > 0 {
		return grow(scores, free, held, want).members
	}
	var best grown
	for i, seed := range free[:min(len(free), maxSeeds)] {
		if g := grow(scores, without(free, i), []int{seed}, want-1); i == 0 || g.isBetter(best) {
			best = g
		}
	}
	return best.members
}

// grown is a set with what it is worth and what it costs those that stay behind.
type grown struct {
	members []int
	within  int32
	loss    int32
}

func (g grown) isBetter(than grown) bool {
	return cmp.Or(cmp.Compare(g.within, than.within), cmp.Compare(than.loss, g.loss)) > 0
}

func grow(scores [][]int32, free, start []int, want int) grown {
	g := grown{members: append([]int{}, start...)}
	gain, lost := map[int]int32{}, map[int]int32{} // links to the set, and to those that are still free
	sum := func(of int, to []int) (total int32) {
		for _, x := range to {
			total += scores[of][x]
		}
		return total
	}
	for _, x := range free {
		gain[x], lost[x] = sum(x, start), sum(x, free)
	}
	for _, x := range start {
		g.within += sum(x, start) / 2
		g.loss += sum(x, free)
	}
	for ; want > 0 && len(free) > 0; want-- {
		at := 0
		for i, x := range free {
			if cmp.Or(cmp.Compare(gain[x], gain[free[at]]), cmp.Compare(lost[free[at]], lost[x])) > 0 {
				at = i
			}
		}
		added := free[at]
		free = without(free, at)
		g.members = append(g.members, added)
		g.within += gain[added]
		g.loss += lost[added] - gain[added]
		for _, x := range free {
			gain[x] += scores[x][added]
			lost[x] -= scores[x][added]
		}
	}
	return g
}

// without is a copy that lacks one place.
func without(list []int, at int) []int {
	return append(append(make([]int, 0, len(list)-1), list[:at]...), list[at+1:]...)
}
