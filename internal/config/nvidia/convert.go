// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package nvidia

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"gpuslice/internal/config"
	"gpuslice/internal/config/strict"
)

// Input is what Convert reads; a file without a name is left out.
type Input struct {
	DevicePluginFile string
	DevicePlugin     []byte
	MIGPartedFile    string // config.BuiltIn stands for the well-known configs alone
	MIGParted        []byte
	Selected         string // the config in that of mig-parted; "" = the only one
}

// Convert returns the SharingConfig that says the same on every node. Warnings name what has no effect or another one; what a
// SharingConfig cannot say is an error that names it.
func Convert(in Input) (c config.Sharing, warnings strict.Issues, err error) {
	x := conversion{document: &strict.Document{}}
	if in.DevicePluginFile != "" {
		plugin, d, err := readDevicePlugin(in.DevicePluginFile, in.DevicePlugin)
		if err != nil {
			return c, nil, err
		}
		x.plugin, x.document = &plugin, d
	}
	if in.MIGPartedFile != "" {
		if err := x.readCuts(in); err != nil {
			return c, x.document.Warnings(), err
		}
	}
	x.name()
	for _, p := range x.parts {
		x.convert(p)
	}
	if err := x.document.Err(); err != nil {
		return c, x.document.Warnings(), err
	}
	c = config.Sharing{APIVersion: config.APIVersion, Kind: config.Kind, Layouts: x.layouts}
	if len(x.rules) > 0 {
		c.Nodes = []config.Node{{Name: in.Selected, GPUs: x.rules}}
	}
	// What is printed must be what is read: names that are good there may not be here.
	text, err := c.YAML()
	if err == nil {
		c, err = config.Load("the converted config", text)
	}
	return c, x.document.Warnings(), err
}

// part is GPUs that are cut alike.
type part struct {
	sel    *config.Select // nil = every GPU that no part before this one has
	name   string
	layout config.Layout
	cut    bool // mig-parted says how; otherwise they stay as they are
}

// isMIG says that the GPUs are cut into instances.
func (p part) isMIG() bool { return p.cut && p.layout.MIG != nil }

// isEveryCapable says that the part is every GPU that can be cut.
func (p part) isEveryCapable() bool {
	s := p.sel
	return s != nil && s.MIGCapable != nil && *s.MIGCapable && len(s.Index) == 0 && len(s.Device) == 0
}

// conversion is a SharingConfig in the making.
type conversion struct {
	plugin   *DevicePlugin    // nil = none
	document *strict.Document // of the plugin's config
	parts    []part
	layouts  map[string]config.Layout
	rules    []config.GPU
}

// readCuts finds the parts that mig-parted's config makes of a node.
func (x *conversion) readCuts(in Input) error {
	parted := MIGParted{}
	if in.MIGPartedFile != config.BuiltIn {
		var err error
		if parted, err = LoadMIGParted(in.MIGPartedFile, in.MIGParted); err != nil {
			return err
		}
	}
	name := in.Selected
	if name == "" && len(parted.Configs) == 1 {
		name = parted.Names()[0]
	}
	cuts, listed := parted.Configs[name]
	if !listed {
		return x.wellKnown(in, parted, name)
	}
	for i, c := range slices.Backward(cuts) { // the last that fits counts there, the first here
		layout, err := c.Layout()
		if err != nil {
			return strict.Issues{{File: in.MIGPartedFile, Field: fmt.Sprintf("mig-configs.%s[%d].mig-devices", name, i), Message: err.Error()}}
		}
		p := part{sel: c.Select(), name: name, layout: layout, cut: true}
		if len(cuts) > 1 {
			p.name = fmt.Sprintf("%s-%d", name, i)
		}
		x.parts = append(x.parts, p)
	}
	return nil
}

// wellKnown is what a config means that no file lists, on any GPU.
func (x *conversion) wellKnown(in Input, parted MIGParted, name string) error {
	p := part{sel: &config.Select{MIGCapable: new(true)}, name: name, cut: true}
	profile, isProfile := profileOf(name)
	switch {
	case name == allDisabled:
		p.sel = nil
	case name == allEnabled:
		p.layout.MIG = &config.MIG{Fill: config.FillNone}
	case name == allBalanced:
		p.layout.MIG = &config.MIG{Fill: config.FillBalanced}
	case isProfile:
		p.layout.MIG = &config.MIG{Fill: profile}
	case name == "":
		return errors.New("--selected says which config is meant; there are " + strict.Listed(parted.Names()))
	default:
		return strict.Issues{{File: in.MIGPartedFile, Field: "mig-configs", Message: strict.OneOf(name, append(parted.Names(), allDisabled, allEnabled, allBalanced))}}
	}
	x.parts = []part{p}
	return nil
}

// name adds the GPUs that mig-parted's config leaves alone, if something is said of them, and applies the naming of instances.
func (x *conversion) name() {
	everything := slices.ContainsFunc(x.parts, func(p part) bool { return p.sel == nil })
	if x.plugin == nil {
		return
	}
	switch {
	case everything:
	case slices.ContainsFunc(x.parts, part.isEveryCapable):
		everything = true
		x.parts = append(x.parts, part{name: "rest"}) // what is left cannot be cut
	default:
		x.parts = append(x.parts, part{name: "as-found", layout: config.Layout{MIG: &config.MIG{AsFound: true}}})
	}
	const field = "flags.migStrategy"
	switch x.plugin.Flags.MIGStrategy {
	case "none":
		if slices.ContainsFunc(x.parts, part.isMIG) {
			x.document.Add(field, "none withholds GPUs in MIG mode, and the config of mig-parted turns it on")
		} else if !everything {
			x.document.Warn(field, "GPUs that are in MIG mode are offered by their instances; none withholds them")
		}
	case "single":
		x.nameSingle(field)
	}
}

func (x *conversion) nameSingle(field string) {
	cut := slices.DeleteFunc(slices.Clone(x.parts), func(p part) bool { return !p.cut })
	if slices.ContainsFunc(cut, part.isMIG) && slices.ContainsFunc(cut, func(p part) bool { return !p.isMIG() || !p.isUniform(cut[0]) }) {
		x.document.Add(field, "single needs instances of one profile on every GPU, and the config of mig-parted has others; want mixed")
		return
	}
	for i, p := range x.parts {
		if p.layout.MIG != nil {
			named := *p.layout.MIG
			named.Resource = gpuResource
			x.parts[i].layout.MIG = &named
		}
		if !p.cut && p.layout.MIG != nil {
			x.document.Warn(field, "instances that are not alike are called nvidia.com/gpu too; single refuses them")
		}
	}
}

// isUniform says that every instance has the one profile that those of another part have.
func (p part) isUniform(other part) bool {
	mine, theirs := p.profiles(), other.profiles()
	return len(mine) == 1 && slices.Equal(mine, theirs)
}

// profiles of the instances that a part is cut into.
func (p part) profiles() []string {
	m := p.layout.MIG
	switch {
	case !p.isMIG() || m.Fill == config.FillNone:
		return nil
	case m.Fill == config.FillBalanced:
		return []string{"1g", "2g", "3g"} // more than one, whatever they are called
	case m.Fill != "":
		return []string{m.Fill}
	}
	return sortedKeys(m.Instances)
}

// add appends a rule, under a layout that is equal to the wanted one.
func (x *conversion) add(p part, sel *config.Select, l config.Layout) {
	rule := config.GPU{Select: sel, Layout: x.layoutName(p.name, l)}
	if p.cut {
		rule.Reset = "when-idle" // mig-parted resets GPUs whenever a mode asks for it
	}
	x.rules = append(x.rules, rule)
}

func (x *conversion) layoutName(wish string, l config.Layout) string {
	if reflect.DeepEqual(l, config.Layout{}) {
		return "whole"
	}
	if x.layouts == nil {
		x.layouts = map[string]config.Layout{}
	}
	for n := 1; ; n++ {
		name := strings.ToLower(wish)
		if n > 1 || config.IsBuiltIn(name) {
			name = fmt.Sprintf("%s.%d", name, n)
		}
		known, taken := x.layouts[name]
		if !taken || reflect.DeepEqual(known, l) {
			x.layouts[name] = l
			return name
		}
	}
}
