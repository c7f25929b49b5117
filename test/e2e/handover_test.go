// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuslice/test/cluster/node"
	"gpuslice/test/crash/killer"
	"gpuslice/test/stage"
)

const byPlugin = config + "nodes: [{gpus: [{layout: whole}]}]\n"

var byDRA = strings.Replace(byPlugin, "layout: whole", "layout: whole, serve: dra", 1)

// P1, P6: a GPU goes from one API to the other only when nobody holds it, whatever happens to the agent meanwhile; at no time
// both offer it.
func TestHandOver(t *testing.T) {
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

// P1, P6: SIGKILL before every effect of a hand-over, both ways: on files, on sockets, and on what is said to the API server. The
// next agent ends what was begun, and each API gives the GPU out again.
func TestHandOverSurvivesKills(t *testing.T) {
	s := begin(t, "1xl40s", byPlugin)
	s.must(s.DeviceClasses(t.Context(), filepath.Join(os.Getenv("GPUSLICE_ROOT"), "deployments/deviceclasses")))
	s.turned(byPlugin)
	s.must(s.KillAgent(t.Context()))
	points := map[string]int{}
	for nth, met := 1, true; met; nth++ {
		met = false
		for _, to := range []string{byDRA, byPlugin} {
			if s.turnKilledAt(nth, to) {
				points[to]++
				met = true
			}
		}
	}
	t.Logf("%d points on the way to DRA, %d on the way back", points[byDRA], points[byPlugin])
	if points[byDRA] < 8 || points[byPlugin] < 8 {
		t.Error("too few effects were met; the trace has lost its subject")
	}
	s.must(s.StartAgent(t.Context()))
	s.must(s.Run(t.Context(), stage.Workload{Name: "classic", Resource: "nvidia.com/gpu"}))
	s.sees("classic", s.uuid(0, ""))
	s.must(s.DeletePods(t.Context()))
	s.must(s.Configure(t.Context(), byDRA))
	s.turned(byDRA)
	s.must(s.Claim(t.Context(), "one", "gpu.nvidia.com", ""))
	s.must(s.Run(t.Context(), stage.Workload{Name: "claimer", Claim: "one"}))
	s.sees("claimer", s.uuid(0, ""))
}

// turnKilledAt turns the node with an agent that dies before its nth effect, and says whether it had as many. Either way the node
// is turned in the end, by the next agent if need be.
func (s *scene) turnKilledAt(nth int, to string) bool {
	s.t.Helper()
	armed := filepath.Join(s.t.TempDir(), "armed")
	through, err := killer.Point{
		Nth: nth, Armed: armed, Under: strings.Join([]string{stateFolder, node.CDIDir, node.KubeletDir, killer.Connections(apiPort)}, ":"),
	}.Through()
	s.must(err)
	s.must(s.StartAgentIn(s.t.Context(), through))
	s.turned(map[string]string{byDRA: byPlugin, byPlugin: byDRA}[to])
	s.must(os.WriteFile(armed, nil, 0o600))
	s.must(s.Configure(s.t.Context(), to))
	died := false
	s.within(soon, fmt.Sprintf("point %d met, or turned without", nth), func(ctx context.Context) error {
		if died = s.Alive() != nil; died {
			return nil
		}
		return s.isTurned(ctx, to)
	})
	s.must(os.Remove(armed))
	s.must(s.KillAgent(s.t.Context())) // closes its log
	if died {
		s.must(s.StartAgent(s.t.Context()))
		s.turned(to)
		s.must(s.KillAgent(s.t.Context()))
	}
	return died
}

// apiPort is where the test cluster's API server listens.
const apiPort = 443

// turned waits until the node's only GPU is offered as the config says, by that API alone.
func (s *scene) turned(to string) {
	s.t.Helper()
	s.within(soon, "turned", func(ctx context.Context) error { return s.isTurned(ctx, to) })
}

func (s *scene) isTurned(ctx context.Context, to string) error {
	classic, err := s.Allocatable(ctx)
	published, err2 := s.Published(ctx)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	want := "map[nvidia.com/gpu:1] []"
	if to == byDRA {
		want = "map[] [gpu-0]"
	}
	if diff := cmp.Diff(want, fmt.Sprint(classic, published)); diff != "" {
		return errors.New(diff)
	}
	return nil
}
