// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build e2e

package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuslice/test/stage"
)

// P1, P6: a GPU goes from one API to the other only when nobody holds it, whatever happens to the agent meanwhile; at no time
// both offer it.
func TestHandOver(t *testing.T) {
	const byPlugin = config + "nodes: [{gpus: [{layout: whole}]}]\n"
	byDRA := strings.Replace(byPlugin, "layout: whole", "layout: whole, serve: dra", 1)
	s := begin(t, "1xl40s", byPlugin)
	s.must(s.DeviceClasses(t.Context(), filepath.Join(os.Getenv("GPUSLICE_ROOT"), "deployments/deviceclasses")))
	s.offers(map[string]int64{"nvidia.com/gpu": 1})
	s.published()
	s.must(s.Run(t.Context(), stage.Workload{Name: "classic", Resource: "nvidia.com/gpu"}))

	s.must(s.Configure(t.Context(), byDRA))
	s.conditionSays("stays with the device plugin")
	s.published()
	s.must(s.KillAgent(t.Context()))
	s.must(s.StartAgent(t.Context()))
	s.conditionSays("stays with the device plugin")
	s.published()
	s.sees("classic", s.uuid(0, ""))
	s.must(s.DeletePods(t.Context()))
	s.published("gpu-0")
	s.offers(map[string]int64{})

	s.must(s.Claim(t.Context(), "one", "gpu.nvidia.com", ""))
	s.must(s.Run(t.Context(), stage.Workload{Name: "claimer", Claim: "one"}))
	s.must(s.Configure(t.Context(), byPlugin))
	s.conditionSays("stays with DRA")
	s.offers(map[string]int64{})
	s.must(s.KillAgent(t.Context()))
	s.must(s.StartAgent(t.Context()))
	s.conditionSays("stays with DRA")
	s.offers(map[string]int64{})
	s.sees("claimer", s.uuid(0, ""))
	s.must(s.DeletePods(t.Context()))
	s.offers(map[string]int64{"nvidia.com/gpu": 1})
	s.published()
}
