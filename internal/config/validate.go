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

	"k8s.io/apimachinery/pkg/util/validation"

	"gpuslice/internal/config/strict"
)

// Values of the fields that have a fixed set of them; the first is the default.
var (
	servers    = []string{"device-plugin", "dra", "none"}
	resets     = []string{"never", "when-idle"}
	xidClasses = []string{"ignore", "application", "reset", "reboot"}
)

// check adds to a document what is wrong with the values that it holds.
type check struct{ *strict.Document }

func (d check) sharing(c Sharing) {
	if c.APIVersion != APIVersion {
		d.Add("apiVersion", "%q is not %s", strict.Clip(c.APIVersion), APIVersion)
	}
	if c.Kind != Kind {
		d.Add("kind", "%q is not %s", strict.Clip(c.Kind), Kind)
	}
	for name, l := range c.Layouts {
		field := strict.Join("layouts", name)
		if _, builtIn := builtInLayouts[name]; builtIn {
			d.Add(field, "%s is built in and cannot be redefined; built in are %s", name, strings.Join(builtInNames(), ", "))
		}
		d.validateMIG(strict.Join(field, "mig"), l.MIG)
		d.validateTimeSlicing(strict.Join(field, "timeSlicing"), l)
	}
	d.validateNodes(c)
	d.validateResourceNames(c)
	d.validateHealth(c)
	d.validateNVIDIA(c.NVIDIA)
}

func (d check) validateNodes(c Sharing) {
	names := map[string]int{}
	for i, n := range c.Nodes {
		field := fmt.Sprintf("nodes[%d]", i)
		if first, twice := names[n.Name]; twice && n.Name != "" {
			d.Add(strict.Join(field, "name"), "%q is the name of nodes[%d] already", strict.Clip(n.Name), first)
		}
		names[n.Name] = i
		d.validateMatch(strict.Join(field, "match"), n.Match)
		if len(n.GPUs) == 0 {
			d.Add(strict.Join(field, "gpus"), "a rule needs at least one entry, such as {layout: whole}")
		}
		for j, g := range n.GPUs {
			d.validateGPU(fmt.Sprintf("%s.gpus[%d]", field, j), g, c)
		}
	}
}

// writtenLabels are prefixes of node labels that follow from a layout: choosing a layout by them would turn in a circle.
var writtenLabels = []string{"gpuslice.dev/", "nvidia.com/gpu.", "nvidia.com/mig-", "nvidia.com/mig."}

func (d check) validateMatch(field string, m *Match) {
	if m == nil {
		return
	}
	for label := range m.NodeLabels {
		for _, prefix := range writtenLabels {
			if strings.HasPrefix(label, prefix) {
				d.Add(strict.Join(strict.Join(field, "nodeLabels"), label), "labels %s* follow from the layout and cannot select it", prefix)
			}
		}
	}
	for i, glob := range m.NodeNames {
		d.glob(fmt.Sprintf("%s.nodeNames[%d]", field, i), glob)
	}
}

func (d check) glob(field, pattern string) {
	if _, err := path.Match(pattern, ""); err != nil {
		d.Add(field, "%q is not a pattern: a [ needs its ], a \\ something behind it", strict.Clip(pattern))
	}
}

func (d check) validateGPU(field string, g GPU, c Sharing) {
	if d.Full() {
		return
	}
	l, ok := c.layout(g.Layout)
	if !ok && !d.HasIssue("layouts") {
		names := slices.Concat(slices.Sorted(maps.Keys(c.Layouts)), builtInNames())
		d.Add(strict.Join(field, "layout"), "%s", strict.OneOf(g.Layout, names))
	}
	d.Enum(strict.Join(field, "serve"), g.Serve, servers)
	d.Enum(strict.Join(field, "reset"), g.Reset, resets)
	if ok && l.MIG != nil && l.MIG.Dynamic && g.Serve != "dra" {
		d.Add(strict.Join(field, "serve"), "layout %s is dynamic and can be served by dra only", strict.Clip(g.Layout))
	}
	d.validateSelect(strict.Join(field, "select"), g.Select)
}

func (d check) validateSelect(field string, s *Select) {
	if s == nil {
		return
	}
	for i, index := range s.Index {
		if _, err := parseRange(index); err != nil {
			d.Add(fmt.Sprintf("%s.index[%d]", field, i), "%v", err)
		}
	}
	d.glob(strict.Join(field, "product"), s.Product)
	for i, device := range s.Device {
		d.AddFault(fmt.Sprintf("%s.device[%d]", field, i), DeviceFault(device))
	}
	if s.Memory != "" {
		if _, err := parseMemory(s.Memory); err != nil {
			d.Add(strict.Join(field, "memory"), "%v", err)
		}
	}
}

func (d check) validateResourceNames(c Sharing) {
	suffixed := false
	for _, l := range c.Layouts {
		suffixed = suffixed || l.TimeSlicing != nil && l.TimeSlicing.Rename.Suffix
	}
	for i, r := range c.ResourceNames {
		field := fmt.Sprintf("resourceNames[%d]", i)
		d.glob(strict.Join(field, "product"), r.Product)
		if r.Product == "" {
			d.Add(strict.Join(field, "product"), "want a pattern for product names such as *H100*")
		}
		why := ResourceFault(r.Name)
		if why == "" && suffixed && ResourceFault(r.Name+sharedSuffix) != "" {
			why = "too long for a layout with rename: true, which puts " + sharedSuffix + " behind it"
		}
		if why != "" {
			d.Add(strict.Join(field, "name"), "%q is not a resource name such as nvidia.com/h100: %s", strict.Clip(r.Name), why)
		}
	}
}

func (d check) validateHealth(c Sharing) {
	if c.Health == nil {
		return
	}
	for xid, class := range c.Health.XIDs {
		field := strict.Join("health.xids", xid)
		if _, err := strconv.ParseUint(xid, 10, 32); err != nil {
			d.Add(field, "%q is not an XID number", strict.Clip(xid))
		}
		if !slices.Contains(xidClasses, class) {
			d.Add(field, "%s", strict.OneOf(class, xidClasses))
		}
	}
}

// BuiltIn is what migPartedConfig names when no ConfigMap but the driver's own tables are meant.
const BuiltIn = "builtin"

func (d check) validateNVIDIA(n *NVIDIA) {
	if n == nil {
		return
	}
	for key, name := range map[string]string{"devicePluginConfig": n.DevicePluginConfig, "migPartedConfig": n.MIGPartedConfig} {
		field := strict.Join("nvidia", key)
		if faults := validation.IsDNS1123Subdomain(name); name != "" && len(faults) > 0 {
			d.Add(field, "%q is not the name of a ConfigMap: %s", strict.Clip(name), faults[0])
		}
	}
}
