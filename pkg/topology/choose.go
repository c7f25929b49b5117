// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package topology

import (
	"math/bits"
	"slices"
)

// Chooser answers which GPUs of a node to take. It is a value: safe for concurrent use, and nothing in it changes.
type Chooser struct {
	names  []string // in order; the order decides between equals
	scores [][]int32
	exact  *exact // nil on nodes of more than MaxExact GPUs
}

// NewChooser computes what later choices need: 0.03 ms for 8 GPUs, some 80 ms for 16.
func NewChooser(gpus []string, between func(a, b string) Link) *Chooser {
	c := &Chooser{names: unique(gpus)}
	c.scores = make([][]int32, len(c.names))
	for i := range c.names {
		c.scores[i] = make([]int32, len(c.names))
	}
	for i, a := range c.names {
		for j, b := range c.names[:i] {
			score := int32(between(a, b).Score()) //nolint:gosec // at most 1,860
			c.scores[i][j], c.scores[j][i] = score, score
		}
	}
	if len(c.names) <= MaxExact {
		c.exact = newExact(c.scores)
	}
	return c
}

// Choose picks size of available, all of required among them, required first. It answers with as many as there are when fewer
// than size are available, keeps all of required however many they are, and gives the same answer for the same sets. GPUs that
// the chooser does not know are taken last.
func (c *Chooser) Choose(available, required []string, size int) []string {
	chosen := unique(required)
	var free, held []int
	var unknown []string
	for _, name := range chosen {
		if i := slices.Index(c.names, name); i >= 0 {
			held = append(held, i)
		}
	}
	for _, name := range unique(available) {
		switch i := slices.Index(c.names, name); {
		case slices.Contains(chosen, name):
		case i < 0:
			unknown = append(unknown, name)
		default:
			free = append(free, i)
		}
	}
	slices.Sort(free)
	slices.Sort(unknown)
	want := max(0, size-len(chosen))
	for _, i := range c.pick(free, held, min(want, len(free))) {
		if !slices.Contains(held, i) {
			chosen = append(chosen, c.names[i])
		}
	}
	return append(chosen, unknown[:min(len(unknown), max(0, size-len(chosen)))]...)
}

// pick adds want of free to held; the answer may begin with what is held.
func (c *Chooser) pick(free, held []int, want int) []int {
	switch {
	case want == 0:
		return nil
	case want == len(free):
		return free
	case c.exact == nil:
		return greedy(c.scores, free, held, want)
	}
	return c.exact.choose(setOf(free), setOf(held), want).members()
}

func setOf(members []int) (s set) {
	for _, i := range members {
		s |= 1 << i
	}
	return s
}

// members lists the set in ascending order.
func (s set) members() []int {
	list := make([]int, 0, s.len())
	for ; s != 0; s &^= s.first() {
		list = append(list, s.first().index())
	}
	return list
}

// index is the number of the lowest member.
func (s set) index() int { return bits.TrailingZeros32(uint32(s)) }

// unique keeps the first of equal names; it never answers nil.
func unique(names []string) []string {
	kept := make([]string, 0, len(names))
	for _, name := range names {
		if !slices.Contains(kept, name) {
			kept = append(kept, name)
		}
	}
	return kept
}
