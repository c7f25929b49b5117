// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package nvidia

import (
	"strings"

	"gpuslice/internal/config"
	"gpuslice/pkg/mig"
)

// The node labels that choose among configs, and the one that answers.
const (
	DevicePluginLabel   = "nvidia.com/device-plugin.config"
	MIGPartedLabel      = "nvidia.com/mig.config"
	MIGPartedStateLabel = "nvidia.com/mig.config.state"
)

// Configs that are known on every node, and the prefix of those for a profile.
const (
	allDisabled = "all-disabled"
	allEnabled  = "all-enabled"
	allBalanced = "all-balanced"
	allProfile  = "all-"
)

// BuiltIn is what a well-known config such as all-1g.10gb means for a GPU, by its driver's own table; ok is false where it
// means nothing. Profiles must be named exactly: all-1g.24gb is another profile on another GPU, not this one's 1g.23gb.
func BuiltIn(name string, g mig.Geometry) (l config.Layout, ok bool) {
	switch {
	case name == allDisabled:
		return config.Layout{}, true
	case g.IsZero():
		return config.Layout{}, false
	case name == allEnabled:
		return config.Layout{MIG: &config.MIG{Fill: config.FillNone}}, true
	case name == allBalanced:
		_, err := g.Balanced()
		return config.Layout{MIG: &config.MIG{Fill: config.FillBalanced}}, err == nil
	}
	for _, o := range g.Offers() {
		if p := o.Profile; allProfile+p.ResourceSuffix() == name {
			return config.Layout{MIG: &config.MIG{Instances: map[string]int{p.Name: p.MaxInstances}}}, true
		}
	}
	return config.Layout{}, false
}

// BuiltInNames lists the well-known configs that mean something for a GPU.
func BuiltInNames(g mig.Geometry) []string {
	names := []string{}
	for _, name := range []string{allDisabled, allEnabled, allBalanced} {
		if _, ok := BuiltIn(name, g); ok {
			names = append(names, name)
		}
	}
	for _, o := range g.Offers() {
		names = append(names, allProfile+o.Profile.ResourceSuffix())
	}
	return names
}

// profileOf turns the name of a config for a profile into the profile's name: all-1g.24gb.me.all into 1g.24gb+me.all.
func profileOf(name string) (profile string, ok bool) {
	name, found := strings.CutPrefix(name, allProfile)
	size, attribute, _ := strings.Cut(name, "gb.")
	if attribute != "" {
		name = size + "gb+" + attribute
	}
	return name, found && profileText().MatchString(name)
}
