// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpuslice/pkg/timeslice"
)

// free lists the ids of a resource that are not taken, as the kubelet offers them.
func (n *node) free(resource string, taken ...string) []string {
	n.t.Helper()
	view, _ := n.View()
	ids := []string{}
	for _, l := range view.Lists[resource] {
		if !slices.Contains(taken, l.ID) {
			ids = append(ids, l.ID)
		}
	}
	return ids
}

// asks takes what is preferred for one container, and says how many shares of each GPU that are.
func (n *node) asks(resource string, size int, taken *[]string) map[string]int {
	n.t.Helper()
	view, _ := n.View()
	chosen := view.Prefer(resource, n.free(resource, *taken...), nil, size)
	if len(chosen) != size {
		n.t.Fatalf("%d shares of %d: %q", len(chosen), size, chosen)
	}
	if _, err := n.Allocate(resource, [][]string{chosen}); err != nil {
		n.t.Fatal(err)
	}
	*taken = append(*taken, chosen...)
	count := map[string]int{}
	for _, id := range chosen {
		count[timeslice.DeviceOf(id)]++
	}
	return count
}

// S09: two shares are of two GPUs while two have any left; with one GPU left they are both of that one, rather than none.
func TestSpreadAsksTwoGPUs(t *testing.T) {
	n := newNode(t, "2xl40s")
	n.apply(layout("{timeSlicing: {replicas: 5, policy: spread}}"))
	a, b := n.uuid(0, ""), n.uuid(1, "")
	taken := []string{a + "::0", a + "::1"} // 3 are free of the first, 5 of the second
	if got := n.asks("nvidia.com/gpu", 2, &taken); got[a] != 1 || got[b] != 1 {
		t.Errorf("two shares are %v", got)
	}
	for i := range 5 {
		if id := fmt.Sprintf("%s::%d", a, i); !slices.Contains(taken, id) {
			taken = append(taken, id)
		}
	}
	if got := n.asks("nvidia.com/gpu", 2, &taken); got[b] != 2 {
		t.Errorf("with one GPU left, two shares are %v", got)
	}
}

// S10: with policy pack, four containers with one share each leave three of four GPUs empty; with spread they are on four.
func TestPackLeavesGPUsEmpty(t *testing.T) {
	for policy, want := range map[string]int{"pack": 1, "spread": 4} {
		n := newNode(t, "4xl40s")
		n.apply(layout("{timeSlicing: {replicas: 4, policy: " + policy + "}}"))
		var taken []string
		used := map[string]bool{}
		for range 4 {
			for uuid := range n.asks("nvidia.com/gpu", 1, &taken) {
				used[uuid] = true
			}
		}
		if len(used) != want {
			t.Errorf("%s uses %d GPUs, want %d: %q", policy, len(used), want, taken)
		}
	}
}

// twoModels is a workstation as people build them.
const twoModels = `
models:
  rtx3090: {name: NVIDIA GeForce RTX 3090, architecture: 7, brand: 5, computeCapability: "8.6", pciDeviceID: 0x220410DE, memoryMiB: 24576, sms: 82}
  rtx4090: {name: NVIDIA GeForce RTX 4090, architecture: 8, brand: 5, computeCapability: "8.9", pciDeviceID: 0x268410DE, memoryMiB: 24564, sms: 128}
gpus: [{model: rtx3090}, {model: rtx4090}]
`

// S18: all models of a node are offered; with a name for each, a pod gets the very model that it asks for.
func TestModelsBesideEachOther(t *testing.T) {
	n := newNode(t, twoModels)
	n.apply(layout("{timeSlicing: {replicas: 5}}"))
	n.offers("gpu=10")
	n.apply(layout("{timeSlicing: {replicas: 5}}") +
		"resourceNames: [{product: '*RTX 3090*', name: nvidia.com/rtx3090}, {product: '*RTX 4090*', name: nvidia.com/rtx4090}]\n")
	n.offers("rtx3090=5 rtx4090=5")
	given, err := n.Allocate("nvidia.com/rtx4090", [][]string{n.free("nvidia.com/rtx4090")[:1]})
	if err != nil {
		t.Fatal(err)
	}
	if d := given[0][0]; d.UUID != n.uuid(1, "") || !strings.Contains(d.GPU.Product, "4090") {
		t.Errorf("the pod that asks for a 4090 gets %s (%s)", d.Name, d.GPU.Product)
	}
	n.noProblems()
}
