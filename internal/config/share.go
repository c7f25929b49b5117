// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package config

import (
	"maps"
	"slices"
	"strings"
)

// Share offers devices several times.
type Share struct {
	Of       Devices
	Replicas int // 1 = exclusive
	Rename   Rename
	Policy   string // spread, pack; "" = spread
	// OnePerContainer refuses a container that asks for more than one share.
	OnePerContainer bool
	Rule            string // "sharing.timeSlicing.resources[0]", for messages
}

// AnyProfile stands for every instance in Devices.Profile.
const AnyProfile = "*"

// Devices says which devices a share is for; all of it must fit.
type Devices struct {
	Resource string   // the name that they have when nobody shares them; "" = any
	Profile  string   // instances of a profile; "" = whole GPUs too
	First    int      // so many of the resource, by index; 0 = all
	Only     []string // by index such as 0 or 0:1, or by UUID; none = all
}

// DeviceFacts is what a share may ask of a device.
type DeviceFacts struct {
	Resource string
	Profile  string   // "" for a whole GPU
	Rank     int      // among the devices of the resource, by index
	Names    []string // everything that it is called by in NVIDIA's configs
}

// Fits says whether a device is one of these.
func (d Devices) Fits(f DeviceFacts) bool {
	return (d.Resource == "" || d.Resource == f.Resource) &&
		(d.Profile == "" || d.Profile == f.Profile || d.Profile == AnyProfile && f.Profile != "") &&
		(d.First == 0 || f.Rank < d.First) &&
		(len(d.Only) == 0 || slices.ContainsFunc(f.Names, func(name string) bool { return slices.Contains(d.Only, name) }))
}

// shares lists what a layout says, the particular before the general.
func (l Layout) shares() []Share {
	ts := l.TimeSlicing
	if ts == nil {
		return nil
	}
	all := []Share{}
	add := func(profile string, replicas int) {
		s := Share{Of: Devices{Profile: profile}, Replicas: replicas, Policy: ts.Policy, OnePerContainer: ts.FailRequestsGreaterThanOne}
		if replicas > 1 {
			s.Rename = ts.Rename
		}
		all = append(all, s)
	}
	// "*" sorts before every profile's name, and is the last resort.
	profiles := slices.Sorted(maps.Keys(ts.Profiles))
	slices.Reverse(profiles)
	for _, name := range profiles {
		add(name, ts.Profiles[name])
	}
	add("", ts.Replicas)
	return all
}

// As returns the name that shares are offered under instead of another.
func (r Rename) As(resource string) string {
	switch {
	case r.Suffix:
		return resource + sharedSuffix
	case r.Name == "":
		return resource
	default:
		return WithDomain(r.Name)
	}
}

// WithDomain gives a resource name without a domain NVIDIA's.
func WithDomain(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return defaultDomain + name
}
