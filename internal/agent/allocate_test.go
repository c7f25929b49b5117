// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuslice/internal/agent"
	"gpuslice/internal/kubelet"
	"gpuslice/internal/state"
	"gpuslice/pkg/devices/sim"
)

func TestAllocate(t *testing.T) {
	n := newNode(t, "2xh100-sxm5-80gb")
	n.apply(layout("{timeSlicing: {replicas: 4, rename: true}}"))
	n.offers("gpu.shared=8")
	gpu := n.uuid(0, "")
	got, err := n.Allocate("nvidia.com/gpu.shared", [][]string{{gpu + "::0", gpu + "::3"}, {gpu + "::1"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || len(got[0]) != 1 || got[0][0].UUID != gpu || got[1][0].UUID != gpu {
		t.Errorf("two shares of one GPU reach the runtime once: got %v", got)
	}
	for _, tc := range []struct{ name, resource, id, says string }{
		{"unknown id", "nvidia.com/gpu.shared", gpu + "::4", "there are " + gpu + "::0"},
		{"the device itself is not a share", "nvidia.com/gpu.shared", gpu, "not offered"},
		{"unknown resource", "nvidia.com/gpu", gpu, "there are nvidia.com/gpu.shared"},
	} {
		if _, err := n.Allocate(tc.resource, [][]string{{tc.id}}); !errors.Is(err, agent.ErrNotOffered) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.says)
		}
	}
}

// P10, K20: answers come from memory, and nothing that the driver does makes them fail.
func TestAllocateMakesNoDriverCall(t *testing.T) {
	for layoutText, resource := range map[string]string{"{mig: {fill: 1g}}": "nvidia.com/mig-1g.10gb", "{}": "nvidia.com/gpu"} {
		n := newNode(t, "8xh100-sxm5-80gb")
		n.apply(layout(layoutText))
		view, _ := n.View()
		ids := []string{}
		for _, l := range view.Lists[resource] {
			ids = append(ids, l.ID)
		}
		if _, err := n.machine.Fail(sim.Fault{}); err != nil {
			t.Fatal(err)
		}
		before := n.machine.Total("agent")
		for i := range 1000 {
			view, _ := n.View()
			if got := view.Prefer(resource, ids, nil, 2); len(got) != 2 {
				t.Fatalf("%s: preferred %v", resource, got)
			}
			if _, err := n.Allocate(resource, [][]string{{ids[i%len(ids)]}}); err != nil {
				t.Fatal(err)
			}
		}
		if calls := n.machine.Total("agent") - before; calls != 0 {
			t.Errorf("%s: %d driver calls in 1,000 allocations", resource, calls)
		}
	}
}

// P2 under race: in each round a slice is given out while an edit that removes it is applied. Either the pod gets it and it
// stays, or the pod is refused and it goes; never both.
func TestDestroyAgainstAllocate(t *testing.T) {
	n := newNode(t, "1xh100-sxm5-80gb")
	given := 0
	for round := range 1000 {
		n.kubelet.set(nil)
		n.apply(layout("{mig: {slots: [1g.10gb@6]}}"))
		n.forgetAnswers()
		id := n.uuid(0, "1g.10gb@6")
		var wg sync.WaitGroup
		var err error
		wg.Go(func() { _, err = n.Allocate("nvidia.com/mig-1g.10gb", [][]string{{id}}) })
		wg.Go(func() { n.apply(layout("{mig: {slots: [2g.20gb@4]}}")) })
		wg.Wait()
		n.converge()
		alive := strings.Contains(n.machine.Dump(), "1g.10gb@6")
		if (err == nil) != alive {
			t.Fatalf("round %d: allocation %v, slice alive %v", round, err, alive)
		}
		if err == nil {
			given++
		}
	}
	t.Logf("given out in %d of 1000 rounds", given)
}

// forgetAnswers lets the kubelet's record catch up: it shows the allocations once and then omits them.
func (n *node) forgetAnswers() {
	n.t.Helper()
	id := n.uuid(0, "1g.10gb@6")
	n.kubelet.set(nil, holder("mig-1g.10gb", id, "p"))
	n.converge()
	n.kubelet.set(nil)
	n.converge()
}

// P1: a GPU that is held in one way is not offered in another until its holder is gone, and stays in its list meanwhile.
func TestHeldDeviceKeepsItsWay(t *testing.T) {
	exclusive, shared := layout("{}"), layout("{timeSlicing: {replicas: 4}}")
	renamed := layout("{timeSlicing: {replicas: 4, rename: true}}")
	viaDRA := strings.Replace(exclusive, "layout: it", "layout: it, serve: dra", 1)
	for _, tc := range []struct {
		name, from, to string
		id             string // "" the device, "::2" a share
		resource       string
		during, after  string
	}{
		{"exclusive, then shared under the same name", exclusive, shared, "", "gpu", "gpu=4-1", "gpu=8"},
		{"exclusive, then shared under another name", exclusive, renamed, "", "gpu", "gpu=0-1 gpu.shared=4", "gpu.shared=8"},
		{"shared, then exclusive", shared, exclusive, "::2", "gpu", "gpu=1-1", "gpu=2"},
		{"more shares under the same name need no waiting", shared, layout("{timeSlicing: {replicas: 8}}"), "::2", "gpu", "gpu=16", "gpu=16"},
		{"fewer shares: the one in use stays, unhealthy", layout("{timeSlicing: {replicas: 8}}"), shared, "::6", "gpu", "gpu=8-1", "gpu=8"},
		{"device plugin, then DRA", exclusive, viaDRA, "", "gpu", "gpu=0-1", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := newNode(t, "2xh100-sxm5-80gb")
			n.apply(tc.from)
			n.kubelet.set(nil, holder(tc.resource, n.uuid(0, "")+tc.id, "p"))
			n.apply(tc.to)
			n.offers(tc.during)
			n.kubelet.set(nil)
			n.converge()
			n.offers(tc.after)
			n.noProblems()
		})
	}
}

// P6: an id that is allocated stays in its list whatever happens to the hardware, also across a restart with an empty driver.
func TestAllocatedIDsNeverLeaveTheList(t *testing.T) {
	n := newNode(t, "2xl40s")
	n.converge()
	id := n.uuid(1, "")
	n.kubelet.set(nil, holder("gpu", id, "p"), kubelet.Allocation{Resource: "example.com/gpu", ID: id, Holder: "x"})
	if err := n.machine.RemoveGPU(1); err != nil {
		t.Fatal(err)
	}
	n.converge()
	n.offers("gpu=1-1")
	n.machine.CloseClient("agent")
	if err := n.machine.UnloadDriver(); err != nil {
		t.Fatal(err)
	}
	n.start()
	n.converge()
	n.offers("gpu=0-1")
}

// S02: one GPU shared, the rest whole.
func TestSharedAndWholeSideBySide(t *testing.T) {
	n := newNode(t, "4xh100-sxm5-80gb")
	n.apply(head + "layouts: {nb: {timeSlicing: {replicas: 10, rename: gpu.shared}}}\nnodes: [{gpus: [{select: {index: 0}, layout: nb}, {layout: whole}]}]\n")
	n.offers("gpu=3 gpu.shared=10")
}

func TestPreferPacksInstances(t *testing.T) {
	n := newNode(t, "2xh100-sxm5-80gb")
	n.apply(layout("{mig: {fill: 3g}}"))
	view, _ := n.View()
	ids := map[string]string{}
	for _, l := range view.Lists["nvidia.com/mig-3g.40gb"] {
		ids[l.Device.Name] = l.ID
	}
	a0, a4, b0, b4 := ids["gpu-0-mig-3g40gb-9-0"], ids["gpu-0-mig-3g40gb-9-4"], ids["gpu-1-mig-3g40gb-9-0"], ids["gpu-1-mig-3g40gb-9-4"]
	for _, tc := range []struct {
		name      string
		available []string
		size      int
		want      []string
	}{
		{"the GPU that is half used is filled first", []string{a0, a4, b4}, 1, []string{b4}},
		{"two go to one GPU", []string{b4, a0, a4}, 2, []string{b4, min(a0, a4)}},
		{"all", []string{a0, a4, b0, b4}, 4, []string{a0, a4, b0, b4}},
	} {
		got := view.Prefer("nvidia.com/mig-3g.40gb", tc.available, nil, tc.size)
		if tc.name == "all" {
			slices.Sort(got)
			slices.Sort(tc.want)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestReserve(t *testing.T) {
	n := newNode(t, "1xh100-sxm5-80gb")
	n.apply(strings.Replace(layout("{mig: {slots: [3g.40gb@0, 3g.40gb@4]}}"), "layout: it", "layout: it, serve: dra", 1))
	n.offers("")
	claim := func(uid string, admin bool) state.Claim {
		return state.Claim{UID: uid, Namespace: "ns", Name: uid, Devices: []state.Device{{Request: "r", Pool: "n1", Admin: admin}}}
	}
	name := "gpu-0-mig-3g40gb-9-0"
	first, err := n.Reserve(claim("a", false), []string{name})
	if err != nil {
		t.Fatal(err)
	}
	again, err := n.Reserve(claim("a", false), []string{name})
	if err != nil || first[0].UUID != again[0].UUID {
		t.Errorf("the same claim again: %v, %v; want the same answer (P6)", again, err)
	}
	if _, err := n.Reserve(claim("b", false), []string{name}); !errors.Is(err, agent.ErrHeld) || !strings.Contains(err.Error(), "claim ns/a holds "+name) {
		t.Errorf("another claim: %v; want refusal that names the holder (P1)", err)
	}
	if _, err := n.Reserve(claim("c", true), []string{name}); err != nil {
		t.Errorf("admin access looks on: %v", err)
	}
	if _, err := n.Reserve(claim("d", false), []string{"gpu-7"}); !errors.Is(err, agent.ErrNotOffered) || !strings.Contains(err.Error(), name) {
		t.Errorf("unknown device: %v; want the names that there are", err)
	}
	if err := errors.Join(n.Release("a"), n.Release("never-seen")); err != nil {
		t.Errorf("release: %v", err)
	}
	if _, err := n.Reserve(claim("b", false), []string{name}); err != nil {
		t.Errorf("after the release: %v", err)
	}
}

// A process that starts on a slice between the decision and the deed stops the deed: the holders are read again.
func TestHolderAppearsAfterTheDecision(t *testing.T) {
	n := newNode(t, "1xh100-sxm5-80gb")
	n.apply(layout("{mig: {slots: [1g.10gb@0, 3g.40gb@4]}}"))
	reads := 0
	n.kubelet.onRead = func() {
		if reads++; reads == 2 { // the first is for the decision
			n.startProcess("1g.10gb@0", 99)
		}
	}
	n.apply(layout("{mig: {slots: [2g.20gb@0, 3g.40gb@4]}}"))
	n.problem(agent.ReasonBlocked, "pid 99")
	n.offers("mig-1g.10gb=1 mig-3g.40gb=1")
	if d := n.destroys("1g.10gb@0"); d != 0 {
		t.Errorf("%d destroy attempts on a slice that is in use", d)
	}
}

func (n *node) startProcess(slot string, pid int) {
	n.t.Helper()
	for _, i := range n.machine.GPUs()[0].Instances {
		if i.Slot == slot {
			if err := n.machine.StartProcess(0, sim.Process{PID: pid, GI: i.GI, CI: i.CI}); err != nil {
				n.t.Error(err)
			}
		}
	}
}
