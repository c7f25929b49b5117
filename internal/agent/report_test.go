// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"gpuslice/internal/agent"
	"gpuslice/internal/state"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
)

func TestLostInOneSessionOnly(t *testing.T) {
	n := newNode(t, "3xl40s")
	n.converge()
	release, err := n.machine.Fail(sim.Fault{Call: "GPUByBusID", GPUs: []int{1}, Nth: 1, Code: devices.ErrLost})
	n.must(err)
	n.converge()
	n.offers("gpu=2-1")
	release()
	n.converge()
	n.offers("gpu=3")
	n.noProblems()
}

func TestAllLostIsOurs(t *testing.T) {
	n := newNode(t, "3xl40s")
	n.converge()
	for gpu := range 3 {
		n.lose(gpu)
	}
	for range 3 {
		n.converge()
		n.offers("gpu=3")
		n.problem(agent.ReasonAccessLost, "lost at once")
	}
	for gpu := range 3 {
		n.must(n.machine.Restore(gpu))
	}
	n.converge()
	n.offers("gpu=3")
	n.noProblems()
}

func TestLostOneAfterTheOther(t *testing.T) {
	n := newNode(t, "2xl40s")
	n.converge()
	n.lose(0)
	n.converge()
	n.converge()
	n.offers("gpu=1-1")
	n.lose(1)
	for range 3 {
		n.converge()
	}
	n.offers("gpu=0-2")
}

func TestLostWhileACallHangs(t *testing.T) {
	n := newNode(t, "2xh100-sxm5-80gb")
	options := n.options()
	options.CallLimit = 300 * time.Millisecond
	n.startWith(options)
	n.converge()
	release, err := n.machine.Fail(sim.Fault{Call: "Minor", GPUs: []int{0}, Form: sim.Hung})
	n.must(err)
	n.t.Cleanup(release)
	n.converge()
	n.lose(1)
	n.converge()
	n.offers("gpu=0-2")
	looks := 0
	n.kubelet.onRead = func() { looks++ }
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	n.must(n.Run(ctx))
	if looks > 5 {
		t.Errorf("%d looks in 2 s", looks)
	}
}

func TestFaultInTheMiddle(t *testing.T) {
	claim := state.Claim{UID: "u1", Namespace: "a", Name: "c", Devices: make([]state.Device, 1)}
	for _, call := range []string{"CreateGI", "CreateCI", "DestroyCI", "DestroyGI"} {
		n := newNode(t, "2xh100-sxm5-80gb")
		n.apply(layout("{mig: {slots: [3g.40gb@4, 2g.20gb@0]}}"))
		pci, fired := n.pci(0), false
		n.machine.SetHooks(sim.Hooks{AfterEffect: func(done string) {
			if done == call && !fired {
				fired = true
				n.Report(devices.Report{PCI: pci, Event: devices.EventXID, XID: 79, GI: whole, CI: whole})
			}
		}})
		n.apply(layout("{mig: {fill: 1g}}"))
		n.converge()
		if n.offers("mig-1g.10gb=7-7"); !fired {
			t.Errorf("no %s", call)
		}
	}
	n := newNode(t, "3xh100-sxm5-80gb")
	n.apply(head + "layouts: {it: {}}\nnodes: [{gpus: [{select: {index: [1-2]}, layout: it, serve: dra}]}]\n")
	n.Report(devices.Report{PCI: n.pci(0), Event: devices.EventXID, XID: 79, GI: whole, CI: whole})
	n.Report(devices.Report{PCI: n.pci(1), Event: devices.EventXID, XID: 79, GI: whole, CI: whole})
	if _, err := n.Allocate("nvidia.com/gpu", [][]string{{n.uuid(0, "")}}); err != nil { // what is not known yet
		t.Fatal(err)
	}
	if _, err := n.Reserve(claim, []string{"gpu-1"}); err != nil {
		t.Fatal(err)
	}
	n.converge()
	n.offers("gpu=0-1")
	if _, err := n.Allocate("nvidia.com/gpu", [][]string{{n.uuid(0, "")}}); err == nil {
		t.Error("a sick GPU was given out")
	}
	if _, err := n.Reserve(claim, []string{"gpu-1"}); err != nil {
		t.Errorf("a claim that holds the GPU gets its answer again: %v", err)
	}
	other := state.Claim{UID: "u2", Namespace: "a", Name: "d", Devices: make([]state.Device, 1)}
	if _, err := n.Reserve(other, []string{"gpu-1"}); err == nil {
		t.Error("a claim got a sick GPU that another holds")
	}
	n.must(n.Release("u1"))
	n.converge()
	if _, err := n.Reserve(other, []string{"gpu-1"}); err == nil {
		t.Error("a claim got a sick GPU")
	}
}

func (n *node) pci(gpu int) string {
	n.t.Helper()
	view, _ := n.View()
	for _, g := range view.Node.GPUs {
		if g.UUID == n.uuid(gpu, "") {
			return g.PCI
		}
	}
	n.t.Fatalf("no gpu-%d in the view", gpu)
	return ""
}

func TestFreeIsNeverNegative(t *testing.T) {
	n := newNode(t, "2xl40s")
	n.converge()
	free := func(want int) {
		t.Helper()
		n.converge()
		if view, _ := n.View(); view.Free["nvidia.com/gpu"] != want {
			t.Errorf("%d free, want %d", view.Free["nvidia.com/gpu"], want)
		}
	}
	free(2)
	n.kubelet.set(nil, holder("gpu", n.uuid(0, ""), "trainer"))
	free(1)
	n.xid(0, 79, whole)
	free(1)
	n.kubelet.set(nil, holder("gpu", n.uuid(0, ""), "trainer"), holder("gpu", n.uuid(1, ""), "other"))
	free(0)
}

func TestStormOfXIDs(t *testing.T) {
	n := newNode(t, "1xh100-sxm5-80gb")
	n.converge()
	n.kubelet.set(nil, holder("gpu", n.uuid(0, ""), "trainer"))
	n.converge()
	view, _ := n.View()
	for i := range uint64(1000) {
		n.Report(devices.Report{PCI: view.Node.GPUs[0].PCI, Event: devices.EventXID, XID: []uint64{31, 43, 79, 13}[i%4], GI: whole, CI: whole})
	}
	n.converge()
	view, _ = n.View()
	total := uint64(0)
	for _, c := range view.Targets[0].Health.Counts {
		total += c.N
	}
	if total != 1000 {
		t.Errorf("%d counted", total)
	}
	kinds := []string{}
	for _, c := range view.Changes {
		kinds = append(kinds, string(c.Kind)+" "+strings.Join(c.Holders, ","))
	}
	if got, want := strings.Join(kinds, "; "), "unhealthy team-a/trainer; noted team-a/trainer"; got != want {
		t.Errorf("told %s, want %s", got, want)
	}
}

func TestFaultsReportedByOthers(t *testing.T) {
	n := newNode(t, "2xl40s")
	n.converge()
	n.word(agent.FaultAnnotation, n.uuid(0, "")+"=fan broken, GPU-none=x, nonsense,"+n.uuid(1, "")+"=")
	n.offers("gpu=1-1")
	n.problem(agent.ReasonGPUUnhealthy, "gpu-0: reported (fan broken)")
	n.problem(agent.ReasonAnnotationInvalid, `"GPU-none=x", "nonsense", "`+n.uuid(1, "")+`=" is not <uuid>=<reason> of a GPU that is here; there are `+n.uuid(0, "")+" (gpu-0)")
	n.word(agent.FaultAnnotation, strings.Repeat("x=y,\xff,", 30000))
	n.offers("gpu=1-1")
	if view, _ := n.View(); len(view.Problems) != 2 || len(view.Problems[0].Message) > 1000 {
		t.Errorf("%d problems, the first of %d bytes", len(view.Problems), len(view.Problems[0].Message))
	}
	n.word(agent.FaultAnnotation, "")
	n.offers("gpu=1-1")
	n.word(agent.ClearAnnotation, "gpu-0") // which may be another GPU tomorrow
	n.offers("gpu=1-1")
	n.problem(agent.ReasonAnnotationInvalid, `"gpu-0" is not <uuid> of a GPU`)
	a, b := n.uuid(0, ""), n.uuid(1, "")
	n.word(agent.ClearAnnotation, a)
	n.offers("gpu=2")
	n.xid(0, 79, whole)
	n.xid(1, 79, whole)
	n.offers("gpu=0-2")
	for _, tc := range []struct{ word, want string }{
		{a, "gpu=0-2"}, {a + "," + b, "gpu=1-1"}, {b + ", " + a, "gpu=1-1"}, {a + "=again", "gpu=2"}, // the word of before is not followed twice
	} {
		n.word(agent.ClearAnnotation, tc.word)
		n.offers(tc.want)
	}
	// What is reported in the moment of the word is not over.
	n.must(n.SetAnnotations(map[string]string{agent.ClearAnnotation: a + "=3"}))
	n.xid(0, 79, whole)
	n.offers("gpu=1-1")
}
