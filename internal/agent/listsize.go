// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"fmt"

	"gpuslice/internal/config"
)

const (
	// maxList is what the kubelet takes as one list: a gRPC message of 4 MiB, less a little for what is around the devices.
	maxList = 4<<20 - 4<<10
	// listEntry bounds what a share takes of it: its id, which is a MIG UUID, "::" and up to five digits, its health, its NUMA
	// node, and their tags and lengths. internal/deviceplugin's test measures it.
	listEntry = 47 + 9 + 14
)

// MaxListed is how many shares a node can list.
const MaxListed = maxList / listEntry

// limitLists refuses layouts of which the shares do not fit into the kubelet's list (K04): a list that it does not take would leave
// the node with nothing. The shares of all layouts are taken together, as if they had one name.
func limitLists(targets []Target, u Usage) {
	total, gpus, most := 0, 0, 1
	for _, t := range targets {
		if n := sharesOf(t); n > 0 {
			total, gpus, most = total+n, gpus+1, max(most, maxReplicas(t.Policy))
		}
	}
	if total <= MaxListed {
		return
	}
	why := fmt.Sprintf("%d shares on %d GPUs (up to %d of a device) take about %.1f MiB of the kubelet's list, which holds %.1f MiB or %d shares; lower replicas",
		total, gpus, most, float64(total*listEntry)/(1<<20), float64(maxList)/(1<<20), MaxListed)
	for i := range targets {
		t := &targets[i]
		if sharesOf(*t) > 0 && !t.Kept {
			t.problem(ReasonImpossible, "layout %s: %s", t.Policy.LayoutName, why)
			t.Plan.Steps, t.Plan.Blocked, t.Plan.NeedsReset = nil, nil, false
			t.keep(t.Policy, u)
		}
	}
}

// sharesOf is how many shares a GPU will have; 0 when it is not shared.
func sharesOf(t Target) int {
	replicas := maxReplicas(t.Policy)
	if replicas < 2 {
		return 0
	}
	if l := t.Policy.Layout; l.MIG == nil {
		return replicas
	}
	return replicas * max(1, len(t.Plan.Kept)+len(t.Plan.Creates()))
}

// maxReplicas is how often a device of a policy is offered at most.
func maxReplicas(p config.Policy) int {
	n := 1
	for _, s := range p.Shares {
		n = max(n, s.Replicas)
	}
	return n
}
