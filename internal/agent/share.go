// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpuslice/internal/config"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/timeslice"
)

// sharesOn calls the profiles that a policy's shares name as this GPU does. A profile that the GPU lacks is a mistake where the
// layout says how it is cut.
func sharesOn(g devices.GPU, p config.Policy) (shares []config.Share, warnings []string, err error) {
	shares = slices.Clone(p.Shares)
	errs := []error{}
	for i, s := range shares {
		if s.Of.Profile == "" || s.Of.Profile == config.AnyProfile {
			continue
		}
		profile, warning, err := g.Geometry.Resolve(s.Of.Profile)
		if err == nil {
			shares[i].Of.Profile = profile.Name
			warnings = append(warnings, nonEmpty(warning)...)
		} else if !p.AsFound() {
			errs = append(errs, err)
		}
	}
	return shares, warnings, errors.Join(errs...)
}

// indexed is a device with its place among all of the node.
type indexed struct {
	device *Device
	target Target
	facts  config.DeviceFacts
}

// shareAll offers devices as often as the policies of their GPUs say.
func shareAll(targets []Target, offers []offering) []Problem {
	all := []indexed{}
	for i, t := range targets {
		for j := range offers[i].devices {
			d := &offers[i].devices[j]
			all = append(all, indexed{device: d, target: t, facts: factsOfDevice(*d)})
		}
	}
	slices.SortStableFunc(all, func(a, b indexed) int {
		return cmp.Or(cmp.Compare(a.device.GPU.Index, b.device.GPU.Index), cmp.Compare(indexOf(*a.device), indexOf(*b.device)))
	})
	ranks := map[string]int{}
	for i, x := range all {
		all[i].facts.Rank = ranks[x.facts.Resource]
		ranks[x.facts.Resource]++
	}
	for _, x := range all {
		x.share()
	}
	return unmatched(all, ranks)
}

func (x indexed) share() {
	i := slices.IndexFunc(x.target.Policy.Shares, func(s config.Share) bool { return s.Of.Fits(x.facts) })
	if i < 0 {
		return
	}
	s := x.target.Policy.Shares[i]
	name := s.Rename.As(x.device.Resource)
	x.device.Renamed = name != x.device.Resource
	x.device.Replicas, x.device.Resource, x.device.OnePerContainer = s.Replicas, name, s.OnePerContainer
	x.device.Policy = cmp.Or(timeslice.Policy(s.Policy), timeslice.Spread)
}

// indexOf is the driver's index of an instance on its GPU: instances are numbered by their ids.
func indexOf(d Device) int {
	if d.Instance == nil {
		return 0
	}
	n := 0
	for _, other := range d.GPU.MIG.Instances {
		if other.CI >= 0 && other.GI < d.Instance.GI {
			n++
		}
	}
	return n
}

// factsOfDevice has every name that NVIDIA's configs know a device by.
func factsOfDevice(d Device) config.DeviceFacts {
	f := config.DeviceFacts{Resource: d.Resource, Names: []string{strconv.Itoa(d.GPU.Index), d.UUID}}
	if d.Instance != nil {
		f.Profile = d.Instance.Slot.Profile.Name
		f.Names = []string{
			fmt.Sprintf("%d:%d", d.GPU.Index, indexOf(d)), d.UUID,
			fmt.Sprintf("MIG-%s/%d/%d", d.GPU.UUID, d.Instance.GI, d.Instance.CI),
		}
	}
	return f
}

// unmatched names what shares ask for and the node does not have. A resource that it has none of is left out: one config serves
// many nodes.
func unmatched(all []indexed, count map[string]int) []Problem {
	problems := []Problem{}
	for _, x := range all {
		for _, s := range x.target.Policy.Shares {
			have := count[s.Of.Resource]
			if have > 0 && s.Of.First > have {
				problems = append(problems, missing(s, fmt.Sprintf("%d devices of %s are to be shared, the node has %d", s.Of.First, s.Of.Resource, have)))
			}
			for _, name := range s.Of.Only {
				if have > 0 && !slices.ContainsFunc(all, func(y indexed) bool { return y.facts.Resource == s.Of.Resource && slices.Contains(y.facts.Names, name) }) {
					problems = append(problems, missing(s, fmt.Sprintf("%s has no device %s; it has %s", s.Of.Resource, name, firstNames(all, s.Of.Resource))))
				}
			}
		}
	}
	return sortProblems(problems)
}

func missing(s config.Share, what string) Problem {
	return Problem{Reason: ReasonImpossible, Message: s.Rule + ": " + what}
}

func firstNames(all []indexed, resource string) string {
	names := []string{}
	for _, x := range all {
		if x.facts.Resource == resource {
			names = append(names, x.facts.Names[0])
		}
	}
	return strings.Join(names, ", ")
}
