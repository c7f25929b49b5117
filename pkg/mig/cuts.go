// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package mig

import "fmt"

// Smallest returns the plain profile of a slice count that can be had most often: what "1g" means on this GPU.
func (g Geometry) Smallest(computeSlices int) (Profile, error) {
	var best Profile
	for _, o := range g.offers {
		if p := o.Profile; p.Plain() && p.ComputeSlices == computeSlices && p.MaxInstances > best.MaxInstances {
			best = p
		}
	}
	if best.MaxInstances == 0 {
		return Profile{}, fmt.Errorf("%dg: %w; it has %s", computeSlices, ErrUnknownProfile, g.Describe())
	}
	return best, nil
}

// Balanced is the mixed cut: two of the smallest, one of two slices and one of three on GPUs with seven compute slices,
// two of the smallest and one of two slices on GPUs with four.
func (g Geometry) Balanced() (Counts, error) {
	sizes := []int{1, 1, 2, 3}
	switch n := g.ComputeSlices(); n {
	case 7:
	case 4:
		sizes = sizes[:3]
	default:
		return nil, fmt.Errorf("balanced is defined for GPUs of 7 or 4 compute slices, this one has %d; it has %s", n, g.Describe())
	}
	c := Counts{}
	for _, n := range sizes {
		p, err := g.Smallest(n)
		if err != nil {
			return nil, err
		}
		c[p.ID]++
	}
	return c, nil
}
