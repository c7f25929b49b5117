// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"maps"
	"slices"
)

// Way is how a GPU is to be offered.
type Way string

// The ways.
const (
	Whole      Way = "whole"
	Cut        Way = "mig"
	TimeSliced Way = "time-slicing"
	ByClaim    Way = "dra"
)

// waysOf lists in which ways the GPUs of a node are to be offered: by what the config says of them, not by how far it has come
// or how they are.
func waysOf(targets []Target, offers []offering) []Way {
	found := map[Way]bool{}
	for i, t := range targets {
		switch {
		case t.GPU.UUID == "" || t.GPU.Unsupported != nil:
		case offers[i].api == DRA:
			found[ByClaim] = true
		case offers[i].api == DevicePlugin:
			t.addWays(offers[i].devices, found)
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func (t Target) addWays(all []Device, found map[Way]bool) {
	shared := 0
	for _, d := range all {
		if d.Replicas > 1 {
			shared++
		}
	}
	if shared > 0 {
		found[TimeSliced] = true
	}
	switch cut := t.wantsMIG(); {
	case cut:
		found[Cut] = true
	case shared == 0 || shared < len(all):
		found[Whole] = true
	}
}

// wantsMIG says whether the GPU is to be cut; where nobody says how it shall be, it is to be as it is.
func (t Target) wantsMIG() bool {
	m := t.Policy.Layout.MIG
	if !t.Policy.Managed || t.Policy.AsFound() || t.Kept && m == nil {
		return t.GPU.MIG.Mode.Current
	}
	return m != nil
}
