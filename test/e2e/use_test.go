// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"gpuslice/pkg/devices/sim"
	"gpuslice/test/stage"
)

const (
	sliced = config + "layouts: {it: {mig: {slots: [3g.40gb@0]}}}\nnodes: [{gpus: [{layout: it}]}]\n"
	whole7 = config + "layouts: {it: {mig: {slots: [7g.80gb@0]}}}\nnodes: [{gpus: [{layout: it}]}]\n"
)

// blocked wants the condition to say that the slice is in use, and the driver to have seen no attempt on it.
func (s *scene) blocked(by string) {
	s.t.Helper()
	s.conditionSays(by)
	s.untouched("3g.40gb@0")
}

func (s *scene) untouched(slot string) {
	s.t.Helper()
	s.uuid(0, slot)
	for _, a := range s.Driver.Machine().Log() {
		if strings.HasPrefix(a.Call, "Destroy") && a.Slot == slot {
			s.t.Errorf("destroy attempt %+v", a)
		}
	}
}

// P2: a slice that only an init container holds, which podresources leaves out.
func TestInitContainerHoldsASlice(t *testing.T) {
	s := begin(t, "1xh100-sxm5-80gb", sliced)
	s.offers(map[string]int64{"nvidia.com/mig-3g.40gb": 1})
	s.must(s.Init(t.Context(), stage.Workload{Name: "loader", Resource: "nvidia.com/mig-3g.40gb", Init: true}))
	s.must(s.Configure(t.Context(), whole7))
	s.blocked("3g.40gb@0 in use by")
	s.must(s.DeletePods(t.Context()))
	s.offers(map[string]int64{"nvidia.com/mig-7g.80gb": 1})
}

// P2: a slice that a process of the host computes on.
func TestHostProcessHoldsASlice(t *testing.T) {
	s := begin(t, "1xh100-sxm5-80gb", sliced)
	s.offers(map[string]int64{"nvidia.com/mig-3g.40gb": 1})
	i := s.Driver.Machine().GPUs()[0].Instances[0]
	s.must(s.Driver.Machine().StartProcess(0, sim.Process{PID: 4711, GI: i.GI, CI: i.CI}))
	s.must(s.Configure(t.Context(), whole7))
	s.blocked("pid 4711")
	s.must(s.Driver.Machine().StopProcess(0, 4711))
	s.offers(map[string]int64{"nvidia.com/mig-7g.80gb": 1})
}

// P2: without the host's PID namespace the driver hides processes, so everything counts as in use, and the agent says so.
func TestAgentWithoutHostPID(t *testing.T) {
	s := begin(t, "1xh100-sxm5-80gb", sliced)
	s.offers(map[string]int64{"nvidia.com/mig-3g.40gb": 1})
	s.must(s.StopAgent(t.Context()))
	s.must(s.StartAgentIn(t.Context(), []string{unshare(t), "--pid", "--fork", "--kill-child"}))
	defer func() { s.must(s.KillAgent(t.Context())) }() // unshare passes no signal on
	s.must(s.Configure(t.Context(), whole7))
	s.blocked("3g.40gb@0 in use by unknown: this agent runs outside the host's PID namespace (hostPID)")
}

func unshare(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("unshare")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// K11, K10: without a driver the agent stays up, idle and ready, says why, and picks the driver up when it appears.
func TestDriverAppears(t *testing.T) {
	s := begin(t, "2xl40s", config+"nodes: [{gpus: [{layout: whole}]}]\n", "--driver-root=/run/nothing")
	s.offers(map[string]int64{})
	s.within(soon, "condition says why", func(ctx context.Context) error {
		c, err := s.Condition(ctx)
		if err == nil && c.Reason != "NoDriver" {
			err = fmt.Errorf("%s: %s", c.Reason, c.Message)
		}
		return err
	})
	pid := s.PID()
	s.must(s.MountDriverAt("/run/nothing"))
	s.offers(map[string]int64{"nvidia.com/gpu": 2})
	s.must(s.Alive())
	if s.PID() != pid {
		t.Errorf("agent pid %d, was %d", s.PID(), pid)
	}
}
