// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"gpuslice/pkg/devices"
)

// linksFile says how the GPUs are joined: by the name of a machine, and pairs that differ from it.
type linksFile struct {
	line     int
	Topology string     `yaml:"topology"` // a key of topologies; NVSwitch where the model's board has it, PCIe by NUMA node
	Pairs    []pairFile `yaml:"pairs"`
}

type pairFile struct {
	line    int
	GPUs    []int  `yaml:"gpus"`    // two, by their order in the file
	PCIe    string `yaml:"pcie"`    // a key of levels; as in the topology
	NVLinks *int   `yaml:"nvlinks"` // from one to the other; as in the topology
}

// UnmarshalYAML keeps the line for later errors.
func (l *linksFile) UnmarshalYAML(n *yaml.Node) error {
	type plain linksFile
	l.line = n.Line
	return n.Decode((*plain)(l))
}

// UnmarshalYAML keeps the line for later errors.
func (p *pairFile) UnmarshalYAML(n *yaml.Node) error {
	type plain pairFile
	p.line = n.Line
	return n.Decode((*plain)(p))
}

// levels are the words for what two GPUs have in common on the PCIe bus, as nvml.h calls them.
var levels = map[string]int{
	"internal": devices.LevelInternal, "single": devices.LevelSingle, "multiple": devices.LevelMultiple,
	"hostbridge": devices.LevelHostBridge, "node": devices.LevelNode, "system": devices.LevelSystem,
}

// bridge is two GPUs and the NVLinks between them.
type bridge struct{ a, b, links int }

// topologies are machines by name; each makes the wiring of so many GPUs.
var topologies = map[string]func(gpus int) (wiring, error){
	"numa":          func(int) (wiring, error) { return wiring{fabric: noGPU}, nil },
	"nvswitch":      func(int) (wiring, error) { return wiring{fabric: everyGPU}, nil },
	"bridged-pairs": bridgedPairs,
	"dgx1-pascal": dgx1([]couple{{0, 2}, {1, 3}, {4, 6}, {5, 7}}, []bridge{
		{0, 1, 1},
		{0, 2, 1},
		{0, 3, 1},
		{1, 2, 1},
		{1, 3, 1},
		{2, 3, 1},
		{4, 5, 1},
		{4, 6, 1},
		{4, 7, 1},
		{5, 6, 1},
		{5, 7, 1},
		{6, 7, 1},
		{0, 4, 1},
		{1, 5, 1},
		{2, 6, 1},
		{3, 7, 1},
	}),
	"dgx1-volta": dgx1([]couple{{0, 1}, {2, 3}, {4, 5}, {6, 7}}, []bridge{
		{0, 1, 1},
		{0, 2, 1},
		{0, 3, 2},
		{1, 2, 2},
		{1, 3, 1},
		{2, 3, 2},
		{4, 5, 1},
		{4, 6, 1},
		{4, 7, 2},
		{5, 6, 2},
		{5, 7, 1},
		{6, 7, 2},
		{0, 4, 2},
		{1, 5, 2},
		{2, 6, 1},
		{3, 7, 1},
	}),
}

// pairLinks is how many NVLinks a bridge between two cards has.
const pairLinks = 4

func bridgedPairs(gpus int) (wiring, error) {
	w := wiring{fabric: noGPU, bridges: map[couple]int{}}
	if gpus%2 != 0 {
		return w, fmt.Errorf("topology bridged-pairs is of an even number of GPUs; here are %d", gpus)
	}
	for i := 0; i < gpus; i += 2 {
		w.bridges[couple{i, i + 1}] = pairLinks
	}
	return w, nil
}

// dgx1 is two sockets with four GPUs each, two behind each PCIe switch.
func dgx1(behindOneSwitch []couple, bridges []bridge) func(int) (wiring, error) {
	const all, half = 8, 4
	return func(gpus int) (wiring, error) {
		w := wiring{fabric: noGPU, levels: map[couple]int{}, bridges: map[couple]int{}}
		if gpus != all {
			return w, fmt.Errorf("the topology is of %d GPUs; here are %d", all, gpus)
		}
		for a := range all {
			for b := a + 1; b < all; b++ {
				w.levels[couple{a, b}] = devices.LevelSystem
				if (a < half) == (b < half) {
					w.levels[couple{a, b}] = devices.LevelHostBridge
				}
			}
		}
		for _, c := range behindOneSwitch {
			w.levels[c] = devices.LevelSingle
		}
		for _, b := range bridges {
			w.bridges[couple{b.a, b.b}] = b.links
		}
		return w, nil
	}
}

// buildLinks wires the GPUs of the machine, which are all there.
func (m *Machine) buildLinks(f linksFile) error {
	if f.Topology != "" {
		wire, known := topologies[f.Topology]
		if !known {
			return located(f.line, fmt.Errorf("links: unknown topology %q; valid: %s", f.Topology, words(topologies)))
		}
		w, err := wire(len(m.gpus))
		if err != nil {
			return located(f.line, fmt.Errorf("links: %w", err))
		}
		m.wiring = w
	}
	m.wiring.levels, m.wiring.bridges = orEmpty(m.wiring.levels), orEmpty(m.wiring.bridges)
	var errs []error
	for _, p := range f.Pairs {
		errs = append(errs, located(p.line, m.buildPair(p)))
	}
	for _, g := range m.gpus {
		if n := len(m.wires(g)); n > max(devices.NVLinks, g.model.nvlinks) {
			errs = append(errs, fmt.Errorf("links: GPU %d has %d NVLinks, at most %d", g.number, n, devices.NVLinks))
		}
	}
	return errors.Join(errs...)
}

func orEmpty(m map[couple]int) map[couple]int {
	if m == nil {
		return map[couple]int{}
	}
	return m
}

func (m *Machine) buildPair(p pairFile) error {
	if len(p.GPUs) != 2 || p.GPUs[0] == p.GPUs[1] || slices.Min(p.GPUs) < 0 || slices.Max(p.GPUs) >= len(m.gpus) {
		return fmt.Errorf("links: gpus is %v; valid: two of 0 to %d", p.GPUs, len(m.gpus)-1)
	}
	pair := coupleOf(p.GPUs[0], p.GPUs[1])
	if p.PCIe != "" {
		level, known := levels[p.PCIe]
		if !known {
			return fmt.Errorf("links: pcie is %q; valid: %s", p.PCIe, words(levels))
		}
		m.wiring.levels[pair] = level
	}
	if p.NVLinks != nil {
		if *p.NVLinks < 0 || *p.NVLinks > devices.NVLinks {
			return fmt.Errorf("links: nvlinks is %d; valid: 0 to %d", *p.NVLinks, devices.NVLinks)
		}
		m.wiring.bridges[pair] = *p.NVLinks
	}
	return nil
}

func words[V any](m map[string]V) string { return strings.Join(slices.Sorted(maps.Keys(m)), ", ") }
