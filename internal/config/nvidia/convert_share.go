// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package nvidia

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpuslice/internal/config"
)

const (
	gpuResource      = "nvidia.com/gpu"
	instanceResource = "nvidia.com/mig-"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// singleInstances is what a SharingConfig cannot say.
const singleInstances = "shares of single instances cannot be said in a SharingConfig, only those of every instance of a profile on a GPU"

func (x *conversion) isSingle() bool { return x.plugin.Flags.MIGStrategy == "single" }

func isAll(s config.Share) bool { return s.Of.First == 0 && len(s.Of.Only) == 0 }

// convert adds the rules for a part: one for each set of its GPUs that is shared alike.
func (x *conversion) convert(p part) {
	if x.plugin == nil {
		x.add(p, p.sel, p.layout)
		return
	}
	instances := x.instanceShares(p)
	for _, s := range x.plugin.shares() {
		if s.Of.Resource != gpuResource || p.isMIG() && !x.isSingle() {
			continue
		}
		if p.isMIG() && !isAll(s) {
			x.document.AddFault(s.Rule+".devices", singleInstances)
			continue
		}
		l := p.layout
		l.TimeSlicing = x.timeSlicing(p, &s, instances)
		if isAll(s) {
			x.add(p, p.sel, l)
			return
		}
		for _, sel := range x.selects(p, s) {
			x.add(p, sel, l)
		}
	}
	p.layout.TimeSlicing = x.timeSlicing(p, nil, instances)
	x.add(p, p.sel, p.layout)
}

// instanceShares are those of instances under the names of their profiles, by profile.
func (x *conversion) instanceShares(p part) map[string]config.Share {
	found := map[string]config.Share{}
	if p.layout.MIG == nil || x.isSingle() {
		return found
	}
	for _, s := range x.plugin.shares() {
		suffix, isInstance := strings.CutPrefix(s.Of.Resource, instanceResource)
		profile, ok := profileOf(allProfile + suffix)
		if !isInstance || !ok || p.cut && p.layout.MIG.Fill != config.FillBalanced && !slices.Contains(p.profiles(), profile) {
			continue
		}
		if !isAll(s) {
			x.document.AddFault(s.Rule+".devices", singleInstances)
		}
		if _, known := found[profile]; !known {
			found[profile] = s
		}
	}
	return found
}

// selects are the rules' selects for the GPUs that a share names.
func (x *conversion) selects(p part, s config.Share) []*config.Select {
	index, uuids := config.List{}, config.List{}
	for _, name := range s.Of.Only {
		switch {
		case !wholeRef().MatchString(name):
			x.document.Add(s.Rule+".devices", "%s: %s", name, singleInstances)
		case strings.HasPrefix(name, "GPU-"):
			uuids = append(uuids, name)
		default:
			index = append(index, name)
		}
	}
	if s.Of.First > 0 && len(x.parts) > 1 {
		x.document.Add(s.Rule+".devices", "which %d GPUs these are depends on how the others are cut; list them by index", s.Of.First)
	} else if s.Of.First > 0 {
		x.document.Warn(s.Rule+".devices", "the first %d are taken by the GPUs' index", s.Of.First)
		index = config.List{fmt.Sprintf("0-%d", s.Of.First-1)}
	}
	found := []*config.Select{}
	add := func(narrow func(*config.Select) bool) {
		sel := config.Select{}
		if p.sel != nil {
			sel = *p.sel
		}
		if narrow(&sel) {
			found = append(found, &sel)
		}
	}
	if len(index) > 0 {
		add(func(sel *config.Select) bool {
			if len(sel.Index) > 0 {
				index = slices.DeleteFunc(index, func(i string) bool { return !slices.Contains(p.sel.Index, i) })
			}
			sel.Index = index
			return len(index) > 0
		})
	}
	if len(uuids) > 0 {
		add(func(sel *config.Select) bool { sel.UUID = uuids; return true })
	}
	return found
}

// timeSlicing says of one layout what shares say of whole GPUs, nil = nothing, and of instances.
func (x *conversion) timeSlicing(p part, whole *config.Share, instances map[string]config.Share) *config.TimeSlicing {
	if p.isMIG() && !x.isSingle() {
		whole = nil // there are no whole GPUs
	}
	ts := &config.TimeSlicing{Replicas: 1, Profiles: map[string]int{}}
	if whole != nil {
		x.merge(ts, *whole)
		ts.Replicas = whole.Replicas
	}
	for _, profile := range sortedKeys(instances) {
		s := instances[profile]
		x.merge(ts, s)
		if slices.Equal(p.profiles(), []string{profile}) {
			ts.Replicas = s.Replicas
		} else {
			ts.Profiles[profile] = s.Replicas
		}
	}
	if whole != nil && x.mayHaveInstances(p) {
		ts.Profiles[config.AnyProfile] = 1 // the share is of whole GPUs only
	}
	if len(ts.Profiles) == 0 {
		ts.Profiles = nil
	}
	if !ts.Shares() {
		return nil
	}
	return ts
}

// mayHaveInstances says that GPUs that nobody cuts may have instances, which are called after their profiles.
func (x *conversion) mayHaveInstances(p part) bool {
	return !p.cut && p.layout.MIG != nil && !x.isSingle()
}

// merge takes what a share says beside its number; a layout says it of all its devices.
func (x *conversion) merge(ts *config.TimeSlicing, s config.Share) {
	if ts.Shares() && ts.Rename != s.Rename {
		x.document.Add(s.Rule+".rename", "%s is offered under another kind of name than what is shared beside it; one layout has one way to rename", s.Of.Resource)
	}
	ts.Rename, ts.Policy, ts.FailRequestsGreaterThanOne = s.Rename, s.Policy, s.OnePerContainer
}
