// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gpuslice/internal/config/strict"
)

// builtInLayouts need no definition.
var builtInLayouts = map[string]Layout{
	"whole":    {},
	"all-1g":   {MIG: &MIG{Fill: "1g"}},
	"balanced": {MIG: &MIG{Fill: "balanced"}},
	"dynamic":  {MIG: &MIG{Dynamic: true}},
}

func builtInNames() []string { return slices.Sorted(maps.Keys(builtInLayouts)) }

// IsBuiltIn says that a layout of this name needs no definition and takes none.
func IsBuiltIn(name string) bool {
	_, ok := builtInLayouts[name]
	return ok
}

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
	Serve      string // device-plugin, dra, none; "" = as a GPU that nobody manages
	Reset      string // never, when-idle
	Rule       string // "nodes[0].gpus[1]", for messages
	// Shares of the GPU's devices; the first that fits a device is the device's.
	Shares []Share
	// MIGStrategy is NVIDIA's word for how instances are named: none, single, mixed or "", which is mixed.
	MIGStrategy string
}

// AsFound says that the GPU stays as it is cut, whatever else is said of it.
func (p Policy) AsFound() bool { return p.Layout.MIG != nil && p.Layout.MIG.AsFound }

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
	// PCIDevice and PCISubsystem have the device in the upper half and the vendor in the lower; 0 = unknown.
	PCIDevice    uint32
	PCISubsystem uint32
	MIGCapable   bool
}

// ForGPU returns what the config says of a GPU.
func (r NodeRule) ForGPU(f Facts) Policy {
	for j, g := range r.Node.GPUs {
		if !g.Select.Fits(f) {
			continue
		}
		l, _ := r.config.layout(g.Layout)
		return Policy{
			Managed: true, LayoutName: g.Layout, Layout: l,
			Serve: orDefault(g.Serve, servers), Reset: orDefault(g.Reset, resets),
			Rule: fmt.Sprintf("nodes[%d].gpus[%d]", r.Index, j), Shares: l.shares(),
		}
	}
	return Policy{}
}

// AsksForMIG says whether what the rule makes of a GPU can depend on how the GPU can be cut.
func (r NodeRule) AsksForMIG() bool {
	return slices.ContainsFunc(r.Node.GPUs, func(g GPU) bool {
		l, _ := r.config.layout(g.Layout)
		ofProfile := func(s Share) bool { return s.Of.Profile != "" }
		return l.MIG != nil || g.Select != nil && g.Select.MIGCapable != nil || slices.ContainsFunc(l.shares(), ofProfile)
	})
}

func orDefault(value string, valid []string) string {
	if value == "" {
		return valid[0]
	}
	return value
}

// Fits says whether a GPU is one of those; nil selects every GPU.
func (s *Select) Fits(f Facts) bool {
	return s == nil || s.names(f) && s.describes(f)
}

// names says whether a GPU is one of those that are listed one by one.
func (s *Select) names(f Facts) bool {
	return (len(s.Index) == 0 || hasIndex(s.Index, f.Index)) &&
		(len(s.UUID) == 0 || slices.Contains(s.UUID, f.UUID))
}

// describes says whether a GPU is of the wanted kind.
func (s *Select) describes(f Facts) bool {
	return (s.Product == "" || matches(s.Product, f.Product)) &&
		(s.Memory == "" || hasMemory(s.Memory, f.MemoryMiB)) &&
		(len(s.Device) == 0 || hasDevice(s.Device, f)) &&
		(s.MIGCapable == nil || *s.MIGCapable == f.MIGCapable)
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

func hasDevice(filters []string, f Facts) bool {
	return slices.ContainsFunc(filters, func(text string) bool {
		d, err := parseDevice(text)
		return err == nil && d.device == f.PCIDevice && (!d.hasSubsystem || d.subsystem == f.PCISubsystem)
	})
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
		return indexRange{}, fmt.Errorf("%q is not an index such as 3 or a range such as 0-3", strict.Clip(text))
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
		return memoryCondition{}, fmt.Errorf("%q is not a condition such as >=80Gi, with one of >= <= > < = and Mi or Gi", strict.Clip(text))
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

// deviceFilter is a PCI device, of one board vendor or of any.
type deviceFilter struct {
	device, subsystem uint32
	hasSubsystem      bool
}

// deviceText is rare in configs, and large: it is made when it is first needed.
var deviceText = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^0[xX]([0-9a-fA-F]{8})(?::0[xX]([0-9a-fA-F]{8}))?$`)
})

func parseDevice(text string) (deviceFilter, error) {
	m := deviceText().FindStringSubmatch(text)
	if m == nil {
		return deviceFilter{}, fmt.Errorf("%q is not a PCI device such as 0x233010DE or 0x233010DE:0x16C110DE", strict.Clip(text))
	}
	device, err := strconv.ParseUint(m[1], 16, 32)
	subsystem, errSub := strconv.ParseUint(cmp.Or(m[2], "0"), 16, 32)
	return deviceFilter{device: uint32(device), subsystem: uint32(subsystem), hasSubsystem: m[2] != ""}, errors.Join(err, errSub)
}

// DeviceFault says why a text does not name a PCI device, or "".
func DeviceFault(text string) string {
	if _, err := parseDevice(text); err != nil {
		return err.Error()
	}
	return ""
}
