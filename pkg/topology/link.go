// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package topology

// Class is how far two GPUs are apart on the PCIe bus; a greater one is nearer.
type Class int

// The classes from far to near. Unknown counts as the farthest.
const (
	Unknown      Class = iota
	CrossCPU           // over the link between sockets
	SameCPU            // between host bridges of one NUMA node
	HostBridge         // under one host bridge
	MultiSwitch        // over several PCIe switches
	SingleSwitch       // under one PCIe switch
	SameBoard          // on one board
)

var classNames = []string{"unknown", "cross-cpu", "same-cpu", "host-bridge", "multi-switch", "single-switch", "same-board"}

// String is the word that documents and `inventory` use.
func (c Class) String() string {
	if c < Unknown || c > SameBoard {
		return classNames[Unknown]
	}
	return classNames[c]
}

// maxNVLinks is up to how many NVLinks of a pair count.
const maxNVLinks = 18

// Link is how two GPUs reach each other. The zero Link is one of which nothing is known.
type Link struct {
	PCIe Class
	// NVLinks is how many NVLinks lead from one to the other, directly or through NVSwitch.
	NVLinks int
}

// Score is what the link is worth: 10 for the farthest class to 60 for the nearest, and 100 for each NVLink. They are the
// numbers of NVIDIA's device plugin, so that the order of links is the one that users know.
func (l Link) Score() int {
	return 10*int(min(max(l.PCIe, CrossCPU), SameBoard)) + 100*min(max(l.NVLinks, 0), maxNVLinks)
}

// Pair names two GPUs, the lower name first.
type Pair struct{ A, B string }

// PairOf puts two names in order.
func PairOf(a, b string) Pair { return Pair{A: min(a, b), B: max(a, b)} }

// Matrix is the links of a node. A pair that it lacks is one of which nothing is known.
type Matrix map[Pair]Link

// Between is the link between two GPUs.
func (m Matrix) Between(a, b string) Link { return m[PairOf(a, b)] }
