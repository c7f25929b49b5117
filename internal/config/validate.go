// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package config

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
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
	fillExample = "a slice count such as 1g, a profile such as 1g.10gb, or balanced"
)

var (
	profileName  = regexp.MustCompile(`^[1-9][0-9]*g\.[0-9]+gb([+-][a-z]+(\.[a-z]+)?)?$`)
	sliceCount   = regexp.MustCompile(`^[1-9][0-9]*g$`)
	slotName     = regexp.MustCompile(`^[1-9][0-9]*g\.[0-9]+gb([+-][a-z]+(\.[a-z]+)?)?@[0-9]+$`)
	resourceName = regexp.MustCompile(`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
)

// MaxReplicas bounds the shares of one device; the kubelet's message limit is reached earlier on larger nodes.
const MaxReplicas = 16384

func (d *document) validate(c Sharing) {
	if c.APIVersion != APIVersion {
		d.add("apiVersion", "%q is not %s", c.APIVersion, APIVersion)
	}
	if c.Kind != Kind {
		d.add("kind", "%q is not %s", c.Kind, Kind)
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
			d.add(join(field, "name"), "%q is the name of nodes[%d] already", n.Name, first)
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
	d.validateRest(c)
}

func (d *document) validateMIG(field string, m *MIG) {
	if m == nil {
		return
	}
	if ways := m.ways(); ways > 1 || ways == 0 && !d.hasIssueUnder(field) { // a misspelt way has been named already
		d.add(field, "%d ways to cut are set, want exactly one of %s", ways, migWays)
	}
	for name, n := range m.Instances {
		if !profileName.MatchString(name) {
			d.add(join(join(field, "instances"), name), "%q is not a profile name such as 3g.40gb or 1g.10gb+me", name)
		}
		if n < 1 {
			d.add(join(join(field, "instances"), name), "%d instances, want 1 or more", n)
		}
	}
	for i, s := range m.Slots {
		if !slotName.MatchString(s) {
			d.add(fmt.Sprintf("%s.slots[%d]", field, i), "%q is not PROFILE@START such as 3g.40gb@4", s)
		}
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
	if f := m.Fill; f != "" && f != "balanced" && !sliceCount.MatchString(f) && !profileName.MatchString(f) {
		d.add(join(field, "fill"), "%q is not %s", f, fillExample)
	}
	if len(m.Profiles) > 0 && !m.Dynamic {
		d.add(join(field, "profiles"), "profiles restrict dynamic: true only")
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
	if n := ts.Rename.Name; n != "" && !resourceName.MatchString(n) {
		d.add(join(field, "rename"), "%q is not true, false or a resource name such as gpu.shared", n)
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
		d.add(field, "%q is not a pattern: a [ needs its ], a \\ something behind it", pattern)
	}
}

func (d *document) validateGPU(field string, g GPU, c Sharing) {
	l, ok := c.layout(g.Layout)
	if !ok {
		names := slices.Concat(slices.Sorted(maps.Keys(c.Layouts)), builtInNames())
		d.add(join(field, "layout"), "%s", oneOf(g.Layout, names))
	}
	d.enum(join(field, "serve"), g.Serve, servers)
	d.enum(join(field, "reset"), g.Reset, resets)
	if ok && l.MIG != nil && l.MIG.Dynamic && g.Serve != "dra" {
		d.add(join(field, "serve"), "layout %s is dynamic and can be served by dra only", g.Layout)
	}
	if s := g.Select; s != nil {
		for i, index := range s.Index {
			if _, err := parseRange(index); err != nil {
				d.add(fmt.Sprintf("%s.select.index[%d]", field, i), "%v", err)
			}
		}
		d.glob(field+".select.product", s.Product)
		if s.Memory != "" {
			if _, err := parseMemory(s.Memory); err != nil {
				d.add(field+".select.memory", "%v", err)
			}
		}
	}
}

func (d *document) validateRest(c Sharing) {
	for i, r := range c.ResourceNames {
		field := fmt.Sprintf("resourceNames[%d]", i)
		d.glob(join(field, "product"), r.Product)
		if r.Product == "" {
			d.add(join(field, "product"), "want a pattern for product names such as *H100*")
		}
		if !resourceName.MatchString(r.Name) || !strings.Contains(r.Name, "/") {
			d.add(join(field, "name"), "%q is not a resource name such as nvidia.com/h100", r.Name)
		}
	}
	if c.Health == nil {
		return
	}
	for xid, class := range c.Health.XIDs {
		field := join("health.xids", xid)
		if strings.Trim(xid, "0123456789") != "" || xid == "" {
			d.add(field, "%q is not an XID number", xid)
		}
		if !slices.Contains(xidClasses, class) {
			d.add(field, "%s", oneOf(class, xidClasses))
		}
	}
}
