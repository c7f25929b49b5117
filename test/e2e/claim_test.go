// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuslice/test/cluster/node"
	"gpuslice/test/stage"
)

// The other API: a claim that selects by memory gets a slice, holds it against an edit (P2), over a restart of the agent (P6),
// and gives it back.
func TestClaimHoldsASlice(t *testing.T) {
	dra := func(text string) string { return strings.Replace(text, "layout: it", "layout: it, serve: dra", 1) }
	s := begin(t, "1xh100-sxm5-80gb", dra(sliced))
	s.must(s.DeviceClasses(t.Context(), filepath.Join(os.Getenv("GPUSLICE_ROOT"), "deployments/deviceclasses")))
	s.published("gpu-0-mig-3g40gb-9-0")
	s.must(s.Claim(t.Context(), "big", "mig.nvidia.com", `device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("39Gi")) >= 0`))
	s.must(s.Run(t.Context(), stage.Workload{Name: "trainer", Claim: "big"}))
	s.sees("trainer", s.uuid(0, ""), s.uuid(0, "3g.40gb@0"))
	specs := claimSpecs(t)
	if len(specs) != 1 {
		t.Fatalf("CDI files of claims: %v", specs)
	}

	s.must(s.Configure(t.Context(), dra(whole7)))
	s.blocked("claim gpuslice/big")
	t.Logf("agent was %d", s.PID())
	s.must(s.KillAgent(t.Context()))
	s.must(s.StartAgent(t.Context()))
	t.Logf("agent is %d", s.PID())
	s.blocked("claim gpuslice/big")
	if diff := cmp.Diff(specs, claimSpecs(t)); diff != "" {
		t.Errorf("CDI files changed over a restart:\n%s", diff)
	}
	s.sees("trainer", s.uuid(0, ""), s.uuid(0, "3g.40gb@0"))
	s.must(s.DeletePods(t.Context()))
	s.published("gpu-0-mig-7g80gb-0-0")
	if left := claimSpecs(t); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func (s *scene) published(want ...string) {
	s.t.Helper()
	s.within(soon, "devices published", func(ctx context.Context) error {
		got, err := s.Published(ctx)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(append([]string{}, want...), got); diff != "" {
			return fmt.Errorf("%s", diff)
		}
		return nil
	})
}

func claimSpecs(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(node.CDIDir, "k8s.gpu.nvidia.com-claim_*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// P6: a restart of the agent is seen by nobody: pods run on, devices stay allocated, the list is back.
func TestAgentRestart(t *testing.T) {
	s := begin(t, "1xh100-sxm5-80gb", sliced)
	s.offers(map[string]int64{"nvidia.com/mig-3g.40gb": 1})
	s.must(s.Run(t.Context(), stage.Workload{Name: "worker", Resource: "nvidia.com/mig-3g.40gb"}))
	uuid := s.uuid(0, "3g.40gb@0")
	for _, end := range []func(context.Context) error{s.StopAgent, s.KillAgent} {
		s.must(end(t.Context()))
		s.must(s.StartAgent(t.Context()))
		s.offers(map[string]int64{"nvidia.com/mig-3g.40gb": 1})
		s.sees("worker", s.uuid(0, ""), uuid)
		if n := s.restarts("worker"); n != 0 {
			t.Errorf("worker restarted %d times", n)
		}
	}
	s.untouched("3g.40gb@0")
}
