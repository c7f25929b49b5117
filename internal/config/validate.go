// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package config

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Values of the fields that have a fixed set of them; the first is the default.
var (
	servers     = []string{"device-plugin", "dra", "none"}
	resets      = []string{"never", "when-idle"}
	policies    = []string{"spread", "pack"}
	intervals   = []string{"default", "short", "medium", "long"}
	memories    = []string{"unbounded", "share"}
	xidClasses  = []string{"ignore", "application", "reset", "reboot"}
	migWays     = "instances, slots, fill, dynamic"
	sizeExample = "a slice count such as 1g or a profile such as 1g.10gb"
	fillExample = "a slice count such as 1g, a profile such as 1g.10gb, or balanced"
)

// MaxReplicas bounds the shares of one device; the kubelet's message limit is reached earlier on larger nodes.
const MaxReplicas = 16384

func (d *document) validate(c Sharing) {
	if c.APIVersion != APIVersion {
		d.add("apiVersion", "%q is not %s", clip(c.APIVersion), APIVersion)
	}
	if c.Kind != Kind {
		d.add("kind", "%q is not %s", clip(c.Kind), Kind)
	}
	for name, l := range c.Layouts {
		field := join("layouts", name)
		if _, builtIn := builtInLayouts[name]; builtIn {
			d.add(field, "%s is built in and cannot be redefined; built in are %s", name, strings.Join(builtInNames(), ", "))
		}
		d.validateMIG(join(field, "mig"), l.MIG)
		d.validateTimeSlicing(join(field, "timeSlicing"), l)
	}
	names := map[string]int{}
	for i, n := range c.Nodes {
		field := fmt.Sprintf("nodes[%d]", i)
		if first, twice := names[n.Name]; twice && n.Name != "" {
			d.add(join(field, "name"), "%q is the name of nodes[%d] already", clip(n.Name), first)
		}
		names[n.Name] = i
		d.validateMatch(join(field, "match"), n.Match)
		if len(n.GPUs) == 0 {
			d.add(join(field, "gpus"), "a rule needs at least one entry, such as {layout: whole}")
		}
		for j, g := range n.GPUs {
			d.validateGPU(fmt.Sprintf("%s.gpus[%d]", field, j), g, c)
		}
	}
	d.validateResourceNames(c)
	d.validateHealth(c)
}

func (d *document) validateMIG(field string, m *MIG) {
	if m == nil {
		return
	}
	if ways := m.ways(); ways > 1 || ways == 0 && !d.hasIssueUnder(field) { // a misspelt way has been named already
		d.add(field, "%d ways to cut are set, want exactly one of %s", ways, migWays)
	}
	for name, n := range m.Instances {
		instances := join(join(field, "instances"), name)
		d.addFault(instances, profileFault(name))
		if n < 1 || n > MaxSlices {
			d.add(instances, "%d instances, want 1 to %d", n, MaxSlices)
		}
	}
	for i, s := range m.Slots {
		d.addFault(fmt.Sprintf("%s.slots[%d]", field, i), slotFault(s))
	}
	d.validateFill(field, m)
}

// ways counts how many ways to cut are set.
func (m *MIG) ways() int {
	n := 0
	for _, set := range []bool{len(m.Instances) > 0, len(m.Slots) > 0, m.Fill != "", m.Dynamic} {
		if set {
			n++
		}
	}
	return n
}

func (d *document) validateFill(field string, m *MIG) {
	if m.Fill != "" && m.Fill != "balanced" {
		d.addFault(join(field, "fill"), sizeFault(m.Fill, fillExample))
	}
	profiles := join(field, "profiles")
	if len(m.Profiles) > 0 && !m.Dynamic && !d.hasIssue(join(field, "dynamic")) {
		d.add(profiles, "profiles restrict dynamic: true only")
	}
	for i, p := range m.Profiles {
		d.addFault(fmt.Sprintf("%s[%d]", profiles, i), sizeFault(p, sizeExample))
	}
}

func (d *document) validateTimeSlicing(field string, l Layout) {
	ts := l.TimeSlicing
	if ts == nil {
		return
	}
	if ts.Replicas < 1 || ts.Replicas > MaxReplicas {
		d.add(join(field, "replicas"), "%d is not between 1 and %d", ts.Replicas, MaxReplicas)
	}
	if n := ts.Rename.Name; n != "" {
		if why := resourceFault(withDomain(n)); why != "" {
			d.add(join(field, "rename"), "%q is not true, false or a resource name such as gpu.shared: %s", clip(n), why)
		}
	}
	if ts.Replicas == 1 && ts.Rename != (Rename{}) {
		d.add(join(field, "rename"), "one replica is exclusive use and keeps its name")
	}
	d.enum(join(field, "policy"), ts.Policy, policies)
	d.enum(join(field, "interval"), ts.Interval, intervals)
	d.enum(join(field, "memory"), ts.Memory, memories)
	if l.MIG != nil && l.MIG.Dynamic {
		d.add(field, "dynamic MIG is carved for one claim at a time and cannot be shared")
	}
}

func (d *document) enum(field, value string, valid []string) {
	if value != "" && !slices.Contains(valid, value) {
		d.add(field, "%s", oneOf(value, valid))
	}
}

// writtenLabels are prefixes of node labels that follow from a layout: choosing a layout by them would turn in a circle.
var writtenLabels = []string{"gpuslice.dev/", "nvidia.com/gpu.", "nvidia.com/mig-", "nvidia.com/mig."}

func (d *document) validateMatch(field string, m *Match) {
	if m == nil {
		return
	}
	for label := range m.NodeLabels {
		for _, prefix := range writtenLabels {
			if strings.HasPrefix(label, prefix) {
				d.add(join(join(field, "nodeLabels"), label), "labels %s* follow from the layout and cannot select it", prefix)
			}
		}
	}
	for i, glob := range m.NodeNames {
		d.glob(fmt.Sprintf("%s.nodeNames[%d]", field, i), glob)
	}
}

func (d *document) glob(field, pattern string) {
	if _, err := path.Match(pattern, ""); err != nil {
		d.add(field, "%q is not a pattern: a [ needs its ], a \\ something behind it", clip(pattern))
	}
}

func (d *document) validateGPU(field string, g GPU, c Sharing) {
	if d.full() {
		return
	}
	l, ok := c.layout(g.Layout)
	if !ok && !d.hasIssue("layouts") {
		names := slices.Concat(slices.Sorted(maps.Keys(c.Layouts)), builtInNames())
		d.add(join(field, "layout"), "%s", oneOf(g.Layout, names))
	}
	d.enum(join(field, "serve"), g.Serve, servers)
	d.enum(join(field, "reset"), g.Reset, resets)
	if ok && l.MIG != nil && l.MIG.Dynamic && g.Serve != "dra" {
		d.add(join(field, "serve"), "layout %s is dynamic and can be served by dra only", clip(g.Layout))
	}
	d.validateSelect(join(field, "select"), g.Select)
}

func (d *document) validateSelect(field string, s *Select) {
	if s == nil {
		return
	}
	for i, index := range s.Index {
		if _, err := parseRange(index); err != nil {
			d.add(fmt.Sprintf("%s.index[%d]", field, i), "%v", err)
		}
	}
	d.glob(join(field, "product"), s.Product)
	if s.Memory != "" {
		if _, err := parseMemory(s.Memory); err != nil {
			d.add(join(field, "memory"), "%v", err)
		}
	}
}

func (d *document) validateResourceNames(c Sharing) {
	suffixed := false
	for _, l := range c.Layouts {
		suffixed = suffixed || l.TimeSlicing != nil && l.TimeSlicing.Rename.Suffix
	}
	for i, r := range c.ResourceNames {
		field := fmt.Sprintf("resourceNames[%d]", i)
		d.glob(join(field, "product"), r.Product)
		if r.Product == "" {
			d.add(join(field, "product"), "want a pattern for product names such as *H100*")
		}
		why := resourceFault(r.Name)
		if why == "" && suffixed && resourceFault(r.Name+sharedSuffix) != "" {
			why = "too long for a layout with rename: true, which puts " + sharedSuffix + " behind it"
		}
		if why != "" {
			d.add(join(field, "name"), "%q is not a resource name such as nvidia.com/h100: %s", clip(r.Name), why)
		}
	}
}

func (d *document) validateHealth(c Sharing) {
	if c.Health == nil {
		return
	}
	for xid, class := range c.Health.XIDs {
		field := join("health.xids", xid)
		if _, err := strconv.ParseUint(xid, 10, 32); err != nil {
			d.add(field, "%q is not an XID number", clip(xid))
		}
		if !slices.Contains(xidClasses, class) {
			d.add(field, "%s", oneOf(class, xidClasses))
		}
	}
}
