// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent_test

import (
	"strings"
	"testing"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
)

// A GPU that does not answer is told of once, to those who hold it, and again when it answers; a driver that is away is no news of its
// GPUs.
func TestSilenceIsTold(t *testing.T) {
	n := newNode(t, "2xl40s")
	n.converge()
	n.kubelet.set(nil, holder("gpu", n.uuid(0, ""), "trainer"))
	n.converge()
	release, err := n.machine.Fail(sim.Fault{Call: "Minor", GPUs: []int{0}, Code: devices.ErrUnknown})
	n.must(err)
	for range 3 {
		n.converge()
	}
	n.offers("gpu=1-1")
	release()
	n.converge()
	n.offers("gpu=2")
	release, err = n.machine.Fail(sim.Fault{Call: "GPUCount", Code: devices.ErrUnknown})
	n.must(err)
	n.converge()
	n.offers("gpu=0-2")
	release()
	n.converge()
	n.offers("gpu=2")
	n.lose(0)
	for range 3 {
		n.converge()
	}
	view, _ := n.View()
	told := []string{}
	for _, c := range view.Changes {
		told = append(told, string(c.Kind)+" "+strings.Join(c.Holders, ",")+" "+c.Text)
	}
	want := []string{
		"unhealthy team-a/trainer gpu-0: ", "healthy team-a/trainer gpu-0: healthy again: it answers again", "unhealthy team-a/trainer gpu-0: unreachable (off the bus)",
	}
	if len(told) != len(want) {
		t.Fatalf("told %q", told)
	}
	for i := range want {
		if !strings.HasPrefix(told[i], want[i]) {
			t.Errorf("told %q, want %q", told[i], want[i])
		}
	}
}

// Those that were well until then and are lost at once are not blamed for another that is off the bus already.
func TestAllOthersLostAtOnce(t *testing.T) {
	n := newNode(t, "4xl40s")
	n.converge()
	n.kubelet.set(nil, holder("gpu", n.uuid(3, ""), "trainer"))
	n.lose(3)
	for range 3 {
		n.converge()
	}
	n.offers("gpu=3-1")
	for _, answer := range []func(int) error{n.machine.Lose, n.machine.Restore} {
		for gpu := range 3 {
			n.must(answer(gpu))
		}
		for range 3 {
			n.converge()
			n.offers("gpu=3-1")
		}
	}
}

// A GPU that is pulled out while another one is let go of is gone, and not one that does not answer.
func TestPulledOutWhileAnotherIsLetGo(t *testing.T) {
	n := newNode(t, "3xl40s")
	n.converge()
	n.sign(2, "recovery-action", "reset")
	n.let(2)
	n.must(n.machine.RemoveGPU(0))
	n.until(func() bool { return n.lists() == "gpu=1-1" })
}
