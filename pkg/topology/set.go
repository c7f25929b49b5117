// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package topology

import (
	"iter"
	"math/bits"
)

// set is GPUs by bit.
type set uint32

func (s set) len() int { return bits.OnesCount32(uint32(s)) }

// first is the set of the lowest member alone.
func (s set) first() set { return s & -s }

// subsets yields every part of the set that has the size, in ascending order.
func (s set) subsets(size int) iter.Seq[set] {
	return func(yield func(set) bool) {
		var lowest [33]set // the lowest members, by their number
		for rest, n := s, 0; rest != 0; rest &^= rest.first() {
			lowest[n+1] = lowest[n] | rest.first()
			n++
		}
		if size < 0 || size > s.len() {
			return
		}
		for part := lowest[size]; yield(part); {
			// The lowest run of members ends one place higher, its others go back to the bottom: counting, inside of s.
			moved := ((part | ^s) + part.first()) & s
			if moved == 0 {
				return
			}
			part = moved | lowest[part.len()-moved.len()]
		}
	}
}
