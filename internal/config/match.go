// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// builtInLayouts need no definition.
var builtInLayouts = map[string]Layout{
	"whole":    {},
	"all-1g":   {MIG: &MIG{Fill: "1g"}},
	"balanced": {MIG: &MIG{Fill: "balanced"}},
	"dynamic":  {MIG: &MIG{Dynamic: true}},
}

func builtInNames() []string { return slices.Sorted(maps.Keys(builtInLayouts)) }

func (c Sharing) layout(name string) (Layout, bool) {
	if l, ok := builtInLayouts[name]; ok {
		return l, true
	}
	l, ok := c.Layouts[name]
	return l, ok
}

// Policy is what a config says of one GPU.
type Policy struct {
	Managed    bool // false: offered as found, never changed
	LayoutName string
	Layout     Layout
	Serve      string // device-plugin, dra, none
	Reset      string // never, when-idle
	Rule       string // "nodes[0].gpus[1]", for messages
}

// ForNode returns the rule for a node; false means that all its GPUs are unmanaged.
func (c Sharing) ForNode(name string, labels map[string]string) (NodeRule, bool) {
	for i, n := range c.Nodes {
		if n.Match.fits(name, labels) {
			return NodeRule{config: c, Node: n, Index: i}, true
		}
	}
	return NodeRule{}, false
}

func (m *Match) fits(name string, labels map[string]string) bool {
	if m == nil {
		return true
	}
	for key, value := range m.NodeLabels {
		if got, ok := labels[key]; !ok || got != value {
			return false
		}
	}
	return len(m.NodeNames) == 0 || slices.ContainsFunc(m.NodeNames, func(glob string) bool { return matches(glob, name) })
}

func matches(glob, text string) bool {
	ok, err := path.Match(glob, text)
	return ok && err == nil
}

// NodeRule is a node's rule together with the layouts that it names.
type NodeRule struct {
	config Sharing
	Node   Node
	Index  int
}

// Facts is what a rule may ask of a GPU.
type Facts struct {
	Index     int
	UUID      string
	Product   string
	MemoryMiB uint64 // 0 = unknown, fits no memory condition
}

// ForGPU returns what the config says of a GPU.
func (r NodeRule) ForGPU(f Facts) Policy {
	for j, g := range r.Node.GPUs {
		if !g.Select.fits(f) {
			continue
		}
		l, _ := r.config.layout(g.Layout)
		return Policy{
			Managed: true, LayoutName: g.Layout, Layout: l,
			Serve: orDefault(g.Serve, servers), Reset: orDefault(g.Reset, resets),
			Rule: fmt.Sprintf("nodes[%d].gpus[%d]", r.Index, j),
		}
	}
	return Policy{}
}

func orDefault(value string, valid []string) string {
	if value == "" {
		return valid[0]
	}
	return value
}

func (s *Select) fits(f Facts) bool {
	return s == nil ||
		(len(s.Index) == 0 || hasIndex(s.Index, f.Index)) &&
			(len(s.UUID) == 0 || slices.Contains(s.UUID, f.UUID)) &&
			(s.Product == "" || matches(s.Product, f.Product)) &&
			(s.Memory == "" || hasMemory(s.Memory, f.MemoryMiB))
}

func hasIndex(ranges []string, index int) bool {
	return slices.ContainsFunc(ranges, func(text string) bool {
		r, err := parseRange(text)
		return err == nil && r.first <= index && index <= r.last
	})
}

func hasMemory(condition string, mib uint64) bool {
	c, err := parseMemory(condition)
	return err == nil && mib > 0 && c.holds(mib)
}

// ResourceFor returns the resource name that the config gives to GPUs of a product, or "".
func (c Sharing) ResourceFor(product string) string {
	for _, r := range c.ResourceNames {
		if matches(r.Product, product) {
			return r.Name
		}
	}
	return ""
}

type indexRange struct{ first, last int }

func parseRange(text string) (indexRange, error) {
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	first, errFirst := strconv.Atoi(from)
	last, errLast := strconv.Atoi(to)
	if errors.Join(errFirst, errLast) != nil || first < 0 || last < first {
		return indexRange{}, fmt.Errorf("%q is not an index such as 3 or a range such as 0-3", clip(text))
	}
	return indexRange{first, last}, nil
}

type memoryCondition struct {
	operator string
	mib      uint64
}

var memoryText = regexp.MustCompile(`^(>=|<=|>|<|=)([0-9]{1,7})(Mi|Gi)$`)

func parseMemory(text string) (memoryCondition, error) {
	m := memoryText.FindStringSubmatch(strings.ReplaceAll(text, " ", ""))
	if m == nil {
		return memoryCondition{}, fmt.Errorf("%q is not a condition such as >=80Gi, with one of >= <= > < = and Mi or Gi", clip(text))
	}
	n, err := strconv.ParseUint(m[2], 10, 64)
	if err != nil {
		return memoryCondition{}, fmt.Errorf("%q: %w", text, err)
	}
	if m[3] == "Gi" {
		n *= 1024
	}
	return memoryCondition{m[1], n}, nil
}

// holds compares in the unit that product names use: drivers report a few hundred MiB less than a GPU's nominal size,
// so a GPU of 81559 MiB is one of 80 GiB.
func (c memoryCondition) holds(mib uint64) bool {
	have := mib
	if c.mib%1024 == 0 {
		have = uint64(math.Ceil(float64(mib)/1024)) * 1024
	}
	switch c.operator {
	case ">=":
		return have >= c.mib
	case "<=":
		return have <= c.mib
	case ">":
		return have > c.mib
	case "<":
		return have < c.mib
	default:
		return have == c.mib
	}
}
