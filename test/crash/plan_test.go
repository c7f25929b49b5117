// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package crash_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuslice/pkg/devices/sim"
	"gpuslice/test/crash/killer"
)

// The second GPU is in use: the edit wants it otherwise, too, and has to wait.
const (
	before = "gpu-0 h100-sxm5-80gb mig=on [2g.20gb@0 3g.40gb@4*]\ngpu-1 h100-sxm5-80gb mig=on [7g.80gb@0*]"
	after  = "gpu-0 h100-sxm5-80gb mig=on [1g.10gb@0 1g.10gb@1 3g.40gb@4*]\ngpu-1 h100-sxm5-80gb mig=on [7g.80gb@0*]"
)

var (
	from = layouts("3g.40gb@4, 2g.20gb@0", "7g.80gb@0")
	to   = layouts("3g.40gb@4, 1g.10gb@0, 1g.10gb@1", "4g.40gb@0")
)

func layouts(zero, one string) string {
	return head + "layouts: {zero: {mig: {slots: [" + zero + "]}}, one: {mig: {slots: [" + one + "]}}}\n" +
		"nodes: [{gpus: [{select: {index: 0}, layout: zero}, {select: {index: 1}, layout: one}]}]\n"
}

// plan is a node on which one edit is made again and again.
type plan struct {
	*node
	kept  [2]string // identities of the slices that are in use
	files []string  // what an agent that was never killed leaves
}

// settled is a node whose agent has reached the first layout, with two slices in use.
func settled(t *testing.T) *plan {
	t.Helper()
	p := &plan{node: newNode(t, "2xh100-sxm5-80gb")}
	p.configure(from)
	p.start()
	p.until("first layout", func() bool { return p.cut() == strings.ReplaceAll(before, "*", "") && p.Healthy(mig2g) == 1 })
	for gpu := range 2 {
		for _, i := range p.driver.Machine().GPUs()[gpu].Instances {
			if i.Slot == "2g.20gb@0" {
				continue
			}
			if err := p.driver.Machine().StartProcess(gpu, sim.Process{PID: 4242, GI: i.GI, CI: 0}); err != nil {
				t.Fatal(err)
			}
		}
	}
	p.kept = p.inUse()
	p.configure(to)
	p.until("second layout", p.done)
	p.files = p.node.files()
	return p
}

func (p *plan) inUse() [2]string {
	return [2]string{p.identity(0, "3g.40gb@4"), p.identity(1, "7g.80gb@0")}
}

func (p *plan) done() bool {
	return p.cut() == after && p.Healthy(mig1g) == 2 && p.Healthy(mig3g) == 1 && p.Healthy(mig2g) == 0
}

// back undoes the edit.
func (p *plan) back() {
	p.t.Helper()
	p.configure(from)
	p.until("first layout again", func() bool { return p.cut() == before && p.Healthy(mig2g) == 1 && p.Healthy(mig1g) == 0 })
}

// converges starts the next process and wants it to finish the edit: nothing left over, what is in use untouched.
func (p *plan) converges(where string) {
	p.t.Helper()
	p.start()
	p.until("second layout, "+where, p.done)
	if diff := cmp.Diff(p.kept, p.inUse()); diff != "" {
		p.t.Errorf("%s: slices in use (-before +now):\n%s", where, diff)
	}
	for _, a := range p.driver.Machine().Log() {
		if strings.HasPrefix(a.Call, "Destroy") && (a.Slot == "3g.40gb@4" || a.Slot == "7g.80gb@0") {
			p.t.Fatalf("%s: destroy attempt %+v", where, a)
		}
	}
	p.until("nothing left behind, "+where, func() bool { // the agent may be writing at this moment
		return slices.Equal(p.files, p.node.files()) && len(p.deadSockets()) == 0
	})
}

var sides = map[bool]string{false: "before", true: "after"}

// P6, D05: SIGKILL before and after every write to the driver of a plan.
func TestKilledAtEveryDriverWrite(t *testing.T) {
	t.Parallel()
	p, points := settled(t), 0
	for _, w := range []write{{"DestroyCI", 1}, {"DestroyGI", 1}, {"CreateGI", 1}, {"CreateCI", 1}, {"CreateGI", 2}, {"CreateCI", 2}} {
		for late, side := range sides {
			points++
			where := fmt.Sprintf("%s %s number %d", side, w.call, w.nth)
			p.back()
			p.dieAt(w, late, where, func() { p.configure(to) })
			p.converges(where)
		}
	}
	t.Logf("%d points", points)
}

// P6: the first plan of all also sets the mode.
func TestKilledWhenTheModeIsSet(t *testing.T) {
	t.Parallel()
	for late, side := range sides {
		n := newNode(t, "2xh100-sxm5-80gb")
		n.configure(from)
		n.dieAt(write{"SetMIGMode", 1}, late, side, func() { n.start() })
		n.start()
		n.until("first layout, killed "+side+" the mode was set", func() bool { return n.cut() == strings.ReplaceAll(before, "*", "") && n.Healthy(mig2g) == 1 })
		n.kill()
	}
	t.Logf("%d points", len(sides))
}

// P6: SIGKILL before and after every effect on files and sockets, from start to the end of the edit.
func TestKilledAtEveryFileEffect(t *testing.T) {
	for late, side := range sides {
		t.Run(side, func(t *testing.T) {
			t.Parallel()
			p, points := settled(t), 0
			for p.killedAtEffect(points+1, late) {
				points++
			}
			t.Logf("%d points", points)
			if points < 10 {
				t.Errorf("only %d effects were met; the trace has lost its subject", points)
			}
		})
	}
}

// killedAtEffect says whether there were as many effects.
func (p *plan) killedAtEffect(nth int, late bool) bool {
	p.t.Helper()
	p.back()
	p.kill()
	p.configure(to)
	through, err := killer.Point{Nth: nth, After: late, Under: strings.Join([]string{p.path("state"), p.path("cdi"), p.Dir}, ":")}.Through()
	if err != nil {
		p.t.Fatal(err)
	}
	p.start(through...)
	p.until("kill or end", func() bool { return p.done() || p.hasEnded() })
	met := p.hasEnded()
	p.kill()
	where := p.lastLine()
	if met && !strings.HasPrefix(where, "killed ") {
		p.t.Fatalf("effect %d: %s", nth, where)
	}
	p.t.Logf("%d: %s", nth, where)
	p.converges(where)
	return met
}
