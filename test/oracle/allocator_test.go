// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package oracle_test

import (
	"fmt"
	"math/bits"
	"slices"
	"testing"
	_ "unsafe" // for the allocator's own functions

	"github.com/NVIDIA/go-gpuallocator/gpuallocator"

	"gpuslice/pkg/topology"
)

// The allocator's own judgement of a set, and its own walk through every way of dividing GPUs into sets of a size.

//go:linkname setScore github.com/NVIDIA/go-gpuallocator/gpuallocator.calculateGPUSetScore
func setScore(set []*gpuallocator.Device) int

//go:linkname partitionScore github.com/NVIDIA/go-gpuallocator/gpuallocator.calculateGPUPartitionScore
func partitionScore(partition [][]*gpuallocator.Device) int

//go:linkname partitions github.com/NVIDIA/go-gpuallocator/gpuallocator.iterateGPUPartitions
func partitions(gpus []*gpuallocator.Device, size int, callback func([][]*gpuallocator.Device))

// machine is 8 GPUs to both sides.
type machine struct {
	gpus    []*gpuallocator.Device
	chooser *topology.Chooser
}

const gpus = 8

// link is what a document says of a pair: how near it is on the PCIe bus, and how many NVLinks it has.
type link struct {
	pcie    topology.Class
	nvlinks int
}

// The allocator numbers its kinds of links: the classes from far to near as topology does, then one to eighteen NVLinks.
const (
	firstClass  = 1
	firstNVLink = 7
)

func newMachine(between func(a, b int) link) machine {
	m := machine{}
	names, number := []string{}, map[string]int{}
	for i := range gpus {
		m.gpus = append(m.gpus, &gpuallocator.Device{Index: i, Links: map[int][]gpuallocator.P2PLink{}})
		names = append(names, fmt.Sprintf("GPU-%d", i))
		number[names[i]] = i
	}
	for a := range gpus {
		for b := range gpus {
			if a != b {
				m.connect(a, b, between(min(a, b), max(a, b)))
			}
		}
	}
	m.chooser = topology.NewChooser(names, func(x, y string) topology.Link {
		l := between(min(number[x], number[y]), max(number[x], number[y]))
		return topology.Link{PCIe: l.pcie, NVLinks: l.nvlinks}
	})
	return m
}

func (m machine) connect(a, b int, l link) {
	add := func(kind int) {
		p := gpuallocator.P2PLink{GPU: m.gpus[b]}
		for range kind { // its type has no name outside of its module
			p.Type++
		}
		m.gpus[a].Links[b] = append(m.gpus[a].Links[b], p)
	}
	add(firstClass + int(l.pcie-topology.CrossCPU))
	if l.nvlinks > 0 {
		add(firstNVLink + l.nvlinks - 1)
	}
}

func (m machine) devices(set int) []*gpuallocator.Device {
	list := []*gpuallocator.Device{}
	for i, g := range m.gpus {
		if set>>i&1 == 1 {
			list = append(list, g)
		}
	}
	return list
}

func names(set int) []string {
	list := []string{}
	for i := range gpus {
		if set>>i&1 == 1 {
			list = append(list, fmt.Sprintf("GPU-%d", i))
		}
	}
	return list
}

// setOf is a set by bits; complete is false when it has the allocator's padding.
func setOf(list []*gpuallocator.Device) (set int, complete bool) {
	for _, g := range list {
		if g == nil {
			return 0, false
		}
		set |= 1 << g.Index
	}
	return set, true
}

// bySet is, for every complete set, the best score of the partitions that it is part of.
func (m machine) bySet(available, size int) map[int]int {
	best := map[int]int{}
	note := func(partition [][]*gpuallocator.Device) {
		score := partitionScore(partition)
		for _, list := range partition {
			if set, complete := setOf(list); complete {
				best[set] = max(best[set], score)
			}
		}
	}
	partitions(m.devices(available), size, note)
	return best
}

// cable is the NVLinks of a DGX-1: those of one half, which both halves have, and those across.
type cable map[[2]int]int

func dgx1(cables cable, behindOneSwitch [][2]int) func(a, b int) link {
	return func(a, b int) link {
		const half = gpus / 2
		l := link{pcie: topology.CrossCPU, nvlinks: cables[[2]int{a, b}]}
		if a/half == b/half {
			l.pcie, l.nvlinks = topology.HostBridge, cables[[2]int{a % half, b % half}]
			if slices.Contains(behindOneSwitch, [2]int{a % half, b % half}) {
				l.pcie = topology.SingleSwitch
			}
		}
		return l
	}
}

var (
	pascal = cable{{0, 1}: 1, {0, 2}: 1, {0, 3}: 1, {1, 2}: 1, {1, 3}: 1, {2, 3}: 1, {0, 4}: 1, {1, 5}: 1, {2, 6}: 1, {3, 7}: 1}
	volta  = cable{{0, 1}: 1, {0, 2}: 1, {0, 3}: 2, {1, 2}: 2, {1, 3}: 1, {2, 3}: 2, {0, 4}: 2, {1, 5}: 2, {2, 6}: 1, {3, 7}: 1}
)

// nilMachine is where the policy is known to answer sets with nil in them.
const nilMachine = "four bridged pairs"

// machines are those that the comparison is about.
var machines = map[string]func(a, b int) link{
	"DGX-1 Pascal": dgx1(pascal, [][2]int{{0, 2}, {1, 3}}),
	"DGX-1 Volta":  dgx1(volta, [][2]int{{0, 1}, {2, 3}}),
	nilMachine: func(a, b int) link {
		if a/2 == b/2 {
			return link{pcie: topology.SameCPU, nvlinks: 4}
		}
		return link{pcie: topology.SameCPU}
	},
	"8 PCIe": func(_, _ int) link { return link{pcie: topology.SameCPU} },
	"two sockets": func(a, b int) link {
		if a/4 == b/4 {
			return link{pcie: topology.SameCPU}
		}
		return link{pcie: topology.CrossCPU}
	},
}

// tally is what a comparison of one machine found.
type tally struct{ asked, none, same, better, only int }

// Every available set, required set and size: never worse than NVIDIA's best-effort policy by its own score, and always one of
// the sets that its rule calls best; where that is one set, that one. Its sets with nil in them crash NVIDIA's plugin; they are
// counted, and a set is chosen all the same.
func TestNeverWorseThanBestEffort(t *testing.T) {
	for name, between := range machines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := comparison{T: t, machine: newMachine(between)}
			for available := range 1 << gpus {
				for size := 1; size <= bits.OnesCount(uint(available)); size++ {
					c.compareAll(available, size)
				}
			}
			t.Logf("%d requests: %d nil sets, %d the same set, %d better ones, %d with one best set", c.asked, c.none, c.same, c.better, c.only)
			if name == nilMachine && c.none == 0 {
				t.Error("no nil set was met: the comparison does not reach that fault")
			}
		})
	}
}

type comparison struct {
	*testing.T
	machine
	tally
}

// compareAll asks with every required set.
func (c *comparison) compareAll(available, size int) {
	bySet := c.bySet(available, size)
	for required := available; ; required = (required - 1) & available {
		if bits.OnesCount(uint(required)) <= size {
			c.compare(bySet, available, required, size)
		}
		if required == 0 {
			return
		}
	}
}

func (c *comparison) compare(bySet map[int]int, available, required, size int) {
	c.asked++
	theirs, complete := setOf(gpuallocator.NewBestEffortPolicy().Allocate(c.devices(available), c.devices(required), size))
	ours := 0
	for _, name := range c.chooser.Choose(names(available), names(required), size) {
		ours |= 1 << slices.Index(names(1<<gpus-1), name)
	}
	if bits.OnesCount(uint(ours)) != size || ours&^available != 0 || required&^ours != 0 {
		c.Fatalf("%d of %v with %v: %v", size, names(available), names(required), names(ours))
	}
	if best := c.best(bySet, required, size); !slices.Contains(best, ours) {
		c.Errorf("%d of %v with %v: %v, the rule's best are %d others", size, names(available), names(required), names(ours), len(best))
	} else if len(best) == 1 {
		c.only++
	}
	own := setScore(c.devices(ours))
	switch {
	case !complete:
		c.none++
	case setScore(c.devices(theirs)) > own:
		c.Errorf("%d of %v with %v: %v scores less than %v", size, names(available), names(required), names(ours), names(theirs))
	case setScore(c.devices(theirs)) < own:
		c.better++
	case ours == theirs:
		c.same++
	}
}

// best lists the sets that the policy's rule calls best: of the partitions with the best score those sets that score best.
func (c *comparison) best(bySet map[int]int, required, size int) (best []int) {
	score := [2]int{-1, -1}
	for set, partition := range bySet {
		if required&^set != 0 {
			continue
		}
		if size == 1 { // the policy does not divide into single GPUs: all are equal
			partition = 0
		}
		got := [2]int{partition, setScore(c.devices(set))}
		switch order := slices.Compare(got[:], score[:]); {
		case order > 0:
			score, best = got, []int{set}
		case order == 0:
			best = append(best, set)
		}
	}
	return best
}
