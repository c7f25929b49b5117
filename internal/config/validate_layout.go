// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package config

import (
	"fmt"
	"maps"
	"slices"

	"gpuslice/internal/config/strict"
)

// Values of the fields that have a fixed set of them, and what messages say of the others.
var (
	policies    = []string{"spread", "pack"}
	intervals   = []string{"default", "short", "medium", "long"}
	memories    = []string{"unbounded", "share"}
	migWays     = "instances, slots, fill, dynamic, asFound"
	sizeExample = "a slice count such as 1g or a profile such as 1g.10gb"
	fillExample = "a slice count such as 1g, a profile such as 1g.10gb, balanced or none"
)

// Values of fill that are no sizes: the mixed cut, and MIG mode without instances.
const (
	FillBalanced = "balanced"
	FillNone     = "none"
)

// MaxReplicas bounds the shares of one device; the kubelet's message limit is reached earlier on larger nodes.
const MaxReplicas = 16384

func (d check) validateMIG(field string, m *MIG) {
	if m == nil {
		return
	}
	if ways := m.ways(); ways > 1 || ways == 0 && !d.HasIssueUnder(field) { // a misspelt way has been named already
		d.Add(field, "%d ways to cut are set, want exactly one of %s", ways, migWays)
	}
	for name, n := range m.Instances {
		instances := strict.Join(strict.Join(field, "instances"), name)
		d.AddFault(instances, profileFault(name))
		if n < 1 || n > MaxSlices {
			d.Add(instances, "%d instances, want 1 to %d", n, MaxSlices)
		}
	}
	for i, s := range m.Slots {
		d.AddFault(fmt.Sprintf("%s.slots[%d]", field, i), slotFault(s))
	}
	d.validateFill(field, m)
	if name := m.Resource; name != "" {
		d.resource(strict.Join(field, "resource"), name, "a resource name such as nvidia.com/gpu")
	}
}

// resource notes a name that Kubernetes would not take.
func (d check) resource(field, name, want string) {
	if why := ResourceFault(WithDomain(name)); why != "" {
		d.Add(field, "%q is not %s: %s", strict.Clip(name), want, why)
	}
}

// ways counts how many ways to cut are set.
func (m *MIG) ways() int {
	n := 0
	for _, set := range []bool{len(m.Instances) > 0, len(m.Slots) > 0, m.Fill != "", m.Dynamic, m.AsFound} {
		if set {
			n++
		}
	}
	return n
}

func (d check) validateFill(field string, m *MIG) {
	if m.Fill != "" && m.Fill != FillBalanced && m.Fill != FillNone {
		d.AddFault(strict.Join(field, "fill"), sizeFault(m.Fill, fillExample))
	}
	profiles := strict.Join(field, "profiles")
	if len(m.Profiles) > 0 && !m.Dynamic && !d.HasIssue(strict.Join(field, "dynamic")) {
		d.Add(profiles, "profiles restrict dynamic: true only")
	}
	for i, p := range m.Profiles {
		d.AddFault(fmt.Sprintf("%s[%d]", profiles, i), sizeFault(p, sizeExample))
	}
}

func (d check) validateTimeSlicing(field string, l Layout) {
	ts := l.TimeSlicing
	if ts == nil {
		return
	}
	if ts.Replicas < 1 || ts.Replicas > MaxReplicas {
		d.Add(strict.Join(field, "replicas"), "%d is not between 1 and %d", ts.Replicas, MaxReplicas)
	}
	d.validateProfiles(strict.Join(field, "profiles"), l)
	if n := ts.Rename.Name; n != "" {
		d.resource(strict.Join(field, "rename"), n, "true, false or a resource name such as gpu.shared")
	}
	if ts.Rename != (Rename{}) && !ts.Shares() {
		d.Add(strict.Join(field, "rename"), "one replica is exclusive use and keeps its name")
	}
	d.Enum(strict.Join(field, "policy"), ts.Policy, policies)
	d.Enum(strict.Join(field, "interval"), ts.Interval, intervals)
	d.Enum(strict.Join(field, "memory"), ts.Memory, memories)
	if l.MIG != nil && l.MIG.Dynamic {
		d.Add(field, "dynamic MIG is carved for one claim at a time and cannot be shared")
	}
}

// Shares says that some device is offered more than once.
func (ts *TimeSlicing) Shares() bool {
	return ts.Replicas > 1 || slices.ContainsFunc(slices.Collect(maps.Values(ts.Profiles)), func(n int) bool { return n > 1 })
}

func (d check) validateProfiles(field string, l Layout) {
	if len(l.TimeSlicing.Profiles) > 0 && l.MIG == nil {
		d.Add(field, "profiles are of instances, and this layout has no mig")
	}
	for profile, n := range l.TimeSlicing.Profiles {
		if profile != AnyProfile {
			d.AddFault(strict.Join(field, profile), profileFault(profile))
		}
		if n < 1 || n > MaxReplicas {
			d.Add(strict.Join(field, profile), "%d is not between 1 and %d", n, MaxReplicas)
		}
	}
}
