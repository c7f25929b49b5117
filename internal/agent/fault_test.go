// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
)

// Every call that changes hardware fails once, in each of the ways in which drivers fail, during a plan that keeps one
// slice, removes one and makes two. Without a new edit the node reaches what was asked for, and what both layouts share
// keeps its UUID (P2, P4, P11).
func TestDriverFaultsAtEveryCall(t *testing.T) {
	from, to := layout("{mig: {slots: [3g.40gb@4, 2g.20gb@0]}}"), layout("{mig: {slots: [3g.40gb@4, 1g.10gb@0, 1g.10gb@1]}}")
	const want = "gpu-0 h100-sxm5-80gb mig=on [1g.10gb@0 1g.10gb@1 3g.40gb@4]"
	cases := 0
	for _, form := range []string{"refused", "done", "hung"} {
		for _, call := range []string{"DestroyCI", "DestroyGI", "CreateGI", "CreateCI"} {
			for nth := 1; nth <= 2; nth++ {
				if strings.HasPrefix(call, "Destroy") && nth > 1 {
					continue
				}
				cases++
				t.Run(fmt.Sprintf("%s %s %d", form, call, nth), func(t *testing.T) {
					n := newBoundedNode(t)
					n.apply(from)
					kept := n.uuid(0, "3g.40gb@4")
					f, err := sim.ParseForm(form)
					if err != nil {
						t.Fatal(err)
					}
					release, err := n.machine.Fail(sim.Fault{Call: call, Nth: nth, Code: devices.ErrUnknown, Form: f})
					if err != nil {
						t.Fatal(err)
					}
					n.apply(to)
					n.failedOrHealed()
					release()
					n.until(func() bool { return strings.TrimSpace(n.machine.Dump()) == want })
					if got := n.uuid(0, "3g.40gb@4"); got != kept || n.destroys("3g.40gb@4") != 0 {
						t.Errorf("the slice that stays became %s from %s", got, kept)
					}
					n.until(func() bool { v, _ := n.View(); return len(v.Problems) == 0 })
					n.offers("mig-1g.10gb=2 mig-3g.40gb=1")
				})
			}
		}
	}
	t.Logf("%d faults", cases)
}

// newBoundedNode gives up on hung calls soon.
func newBoundedNode(t *testing.T) *node {
	n := newNode(t, "1xh100-sxm5-80gb")
	options := n.options()
	options.CallLimit = 300 * time.Millisecond
	n.startWith(options)
	return n
}

// hang makes a call never come back.
func (n *node) hang(call string) {
	n.t.Helper()
	release, err := n.machine.Fail(sim.Fault{Call: call, Form: sim.Hung})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(release)
}

// failedOrHealed wants the failure to be said, unless read-back shows that what was asked for is there.
func (n *node) failedOrHealed() {
	n.t.Helper()
	v, _ := n.View()
	if len(v.Problems) == 0 && n.lists() != "mig-1g.10gb=2 mig-3g.40gb=1" {
		n.t.Errorf("silent failure: offered %s", n.lists())
	}
}

// until converges until the condition holds.
func (n *node) until(done func() bool) {
	n.t.Helper()
	start, tick := time.Now(), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for !done() {
		if time.Since(start) > 30*time.Second {
			v, _ := n.View()
			n.t.Fatalf("not reached in 30 s: %s problems %v", n.machine.Dump(), v.Problems)
		}
		<-tick.C
		n.converge()
	}
}
