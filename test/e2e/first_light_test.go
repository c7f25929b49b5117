// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build e2e

package e2e_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuslice/test/stage"
)

// The whole way once: config, instances, kubelet, pod, and a container that sees its slice and nothing else.
func TestFirstLight(t *testing.T) {
	s := begin(t, "1xh100-sxm5-80gb,1xl40s", config+`
layouts: {inference: {mig: {instances: {3g.40gb: 1, 1g.10gb: 3}}}}
nodes: [{gpus: [{select: {index: 0}, layout: inference}]}]
`)
	s.offers(map[string]int64{"nvidia.com/gpu": 1, "nvidia.com/mig-3g.40gb": 1, "nvidia.com/mig-1g.10gb": 3})
	s.must(s.Run(t.Context(), stage.Workload{Name: "trainer", Resource: "nvidia.com/mig-3g.40gb"}))
	s.sees("trainer", s.uuid(0, ""), s.uuid(0, "3g.40gb@4")) // a GPU in MIG mode is listed above its instances
	nodes, err := s.Nodes(t.Context(), "trainer")
	s.must(err)
	// GPU 0, GPU instance 2 (the right half), compute instance 0: 3+135*0+9*2 and one more, by the kernel module's rule.
	want := []string{"/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap21", "/dev/nvidia-caps/nvidia-cap22"}
	if diff := cmp.Diff(want, nodes); diff != "" {
		t.Errorf("device nodes (-want +got):\n%s", diff)
	}
	s.must(s.Run(t.Context(), stage.Workload{Name: "bystander"}))
	if nodes, err := s.Nodes(t.Context(), "bystander"); err != nil || len(nodes) != 0 {
		t.Errorf("a pod without a request sees %v, %v (P12)", nodes, err)
	}
}
