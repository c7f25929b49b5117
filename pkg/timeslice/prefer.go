// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package timeslice

import (
	"cmp"
	"slices"
	"strings"
)

// Request is what the kubelet asks before it allocates: choose size of available, all of required among them.
// Replicas is how often each device is offered; it turns what is available into what is in use.
type Request struct {
	Available []string
	Required  []string
	Size      int
	Replicas  int
}

// Prefer chooses shares. It answers with as many as there are when fewer than Size are available,
// keeps all of Required, and gives the same answer for the same request.
func Prefer(policy Policy, r Request) []string {
	chosen := slices.Clone(r.Required)
	free := map[string][]string{}
	for _, id := range r.Available {
		if !slices.Contains(chosen, id) {
			device := DeviceOf(id)
			free[device] = append(free[device], id)
		}
	}
	devices := make([]string, 0, len(free))
	for device, ids := range free {
		devices = append(devices, device)
		slices.SortFunc(ids, compareIDs)
	}
	taken := map[string]int{}
	for _, id := range chosen {
		taken[DeviceOf(id)]++
	}
	for len(chosen) < r.Size && len(devices) > 0 {
		best := slices.MinFunc(devices, func(a, b string) int {
			return cmp.Or(policy.rank(r, free, taken, a, b), strings.Compare(a, b))
		})
		chosen = append(chosen, free[best][0])
		taken[best]++
		if free[best] = free[best][1:]; len(free[best]) == 0 {
			devices = slices.DeleteFunc(devices, func(d string) bool { return d == best })
		}
	}
	return chosen
}

// rank is negative when a comes first. A request that asks for several shares wants several devices under spread,
// so what this request has already taken counts before what others use.
func (p Policy) rank(r Request, free map[string][]string, taken map[string]int, a, b string) int {
	used := func(d string) int { return r.Replicas - len(free[d]) }
	if p == Pack {
		return cmp.Compare(used(b), used(a))
	}
	return cmp.Or(cmp.Compare(taken[a], taken[b]), cmp.Compare(used(a), used(b)))
}

// compareIDs orders shares of one device by number, so that low numbers go first.
func compareIDs(a, b string) int {
	x, _ := ParseShare(a)
	y, _ := ParseShare(b)
	return cmp.Or(cmp.Compare(x.N, y.N), strings.Compare(a, b))
}
