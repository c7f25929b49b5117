// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gpuslice/internal/agent"
	"gpuslice/internal/state"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
	"gpuslice/pkg/health"
)

const whole = devices.NoInstance

// sign makes a GPU say something of itself.
func (n *node) sign(gpu int, name, value string) {
	n.t.Helper()
	s, err := sim.ParseSign(name, value)
	if err != nil {
		n.t.Fatal(err)
	}
	if err := n.machine.Sign(gpu, s); err != nil {
		n.t.Fatal(err)
	}
}

// xid is an event as the hardware's watch tells it, with the recovery action that was read after it.
func (n *node) xid(gpu int, xid uint64, gi int, action ...health.RecoveryAction) {
	n.t.Helper()
	n.Report(devices.Report{PCI: n.pci(gpu), Event: devices.EventXID, XID: xid, GI: gi, CI: gi, Action: slices.Max(append(action, 0))})
	n.converge()
}

// others resets a GPU as somebody else would.
func (n *node) others(gpu int) {
	n.t.Helper()
	if err := n.machine.Reset(gpu); err != nil {
		n.t.Fatalf("reset by others: %v", err)
	}
}

// let converges until others could reset a GPU.
func (n *node) let(gpu int) {
	n.t.Helper()
	n.until(func() bool {
		view, _ := n.View()
		for _, g := range view.Node.GPUs {
			if g.UUID == n.uuid(gpu, "") {
				return g.Released != ""
			}
		}
		return false
	})
}

// H01: an application's XID takes nothing away. One that needs a reset does, until somebody resets the GPU: the same process offers
// it again then.
func TestSickGPUHeals(t *testing.T) {
	n := newNode(t, "8xh100-sxm5-80gb")
	n.peek = time.Nanosecond
	n.start()
	n.converge()
	n.xid(3, 94, whole, health.ActionNone)
	n.offers("gpu=8")
	n.sign(3, "recovery-action", "reset")
	n.xid(3, 48, whole, health.ActionReset)
	n.offers("gpu=7-1")
	n.problem(agent.ReasonGPUUnhealthy, "gpu-3: XID 48: needs a reset of the GPU")
	n.let(3)
	n.problem(agent.ReasonGPUUnhealthy, "works now")
	if err := n.machine.Reset(2); err == nil {
		t.Error("a GPU that is well was let go of")
	}
	n.others(3)
	n.until(func() bool { return n.lists() == "gpu=8" })
	n.noProblems()
}

// H02: what a GPU has survives a restart; only what proves that it is over ends it.
func TestFaultSurvivesRestarts(t *testing.T) {
	n := newNode(t, "2xl40s")
	n.converge()
	n.xid(1, 69, whole)
	n.offers("gpu=2")
	n.xid(1, 79, whole)
	n.offers("gpu=1-1")
	for range 3 {
		n.start()
		n.converge()
		n.offers("gpu=1-1")
		n.problem(agent.ReasonGPUUnhealthy, "XID 79: needs a reboot")
	}
	n.machine.Reboot()
	n.start()
	n.converge()
	n.offers("gpu=2")
	n.noProblems()
}

// What heals a fault is the evidence of its class and nothing else: not time, reads without a complaint, restarts, the reset of
// another GPU, or the evidence of another class.
func TestOnlyEvidenceHeals(t *testing.T) {
	reload := func(n *node) {
		n.label(map[string]string{"nvidia.com/gpu.deploy.client": "paused-for-driver-upgrade"})
		if err := n.machine.UnloadDriver(); err != nil {
			n.t.Fatal(err)
		}
		n.machine.LoadDriver("")
		n.label(nil)
	}
	admin := func(n *node) { n.word(agent.ClearAnnotation, n.uuid(0, "")) }
	boot := func(n *node) { n.machine.Reboot(); n.start() }
	byReset := func(n *node) { n.let(0); n.others(0) }
	faults := map[string]func(*node){
		"XID 48, and the driver wants a reset": func(n *node) { n.sign(0, "recovery-action", "reset"); n.xid(0, 48, whole, health.ActionReset) },
		"the driver wants a reset":             func(n *node) { n.sign(0, "recovery-action", "reset") },
		"the driver wants a reboot":            func(n *node) { n.sign(0, "recovery-action", "reboot") },
		"XID 79":                               func(n *node) { n.sign(0, "recovery-action", "reboot"); n.xid(0, 79, whole, health.ActionReboot) },
		"lost":                                 func(n *node) { n.lose(0) },
		"reported": func(n *node) {
			n.word(agent.FaultAnnotation, n.uuid(0, "")+"=too hot")
			n.converge()
			n.word(agent.FaultAnnotation, "")
		},
	}
	byOthers := map[string]bool{"XID 48, and the driver wants a reset": true, "the driver wants a reset": true}
	nothings := map[string]func(*node){
		"time":                    func(*node) { <-time.After(24 * time.Hour) },
		"restart":                 func(n *node) { n.start() },
		"restart as it is let go": func(n *node) { n.converge(); n.start() },
		"clean reads while in use": func(n *node) {
			n.kubelet.set(nil, holder("gpu", n.uuid(0, ""), "trainer"))
			n.settle()
			n.sign(0, "recovery-action", "none")
		},
		"withdrawn, agent down":    func(n *node) { n.sign(0, "recovery-action", "none"); n.start() },
		"reset of another":         func(n *node) { n.sign(1, "recovery-action", "reset"); n.let(1); n.others(1) },
		"another's word":           func(n *node) { n.word(agent.ClearAnnotation, n.uuid(1, "")) },
		"a harmless XID":           func(n *node) { n.xid(0, 13, whole) },
		"the same word once more":  func(n *node) { n.word(agent.FaultAnnotation, "") },
		"another config":           func(n *node) { n.apply(layout("{}")) },
		"overrides of what it has": func(n *node) { n.apply(head + "health: {xids: {'48': ignore, '79': ignore}}\n") },
		"persistence off and on": func(n *node) {
			n.must(n.machine.Persistence(0, true))
			n.converge()
			n.must(n.machine.Persistence(0, false))
		},
	}
	evidence := map[string]func(*node){"boot": boot, "driver load": reload, "admin": admin, "reset by others": byReset}
	run := func(t *testing.T, fault func(*node), then func(*node), heals bool) {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, "3xh100-sxm5-80gb")
			n.peek = 30 * time.Second
			n.start()
			n.converge()
			fault(n)
			n.settle()
			n.offers("gpu=2-1")
			if then(n); n.machine.GPUs()[0].Lost {
				n.must(n.machine.Restore(0))
			}
			n.settle()
			if want := map[bool]string{true: "gpu=3", false: "gpu=2-1"}[heals]; n.lists() != want {
				v, _ := n.View()
				t.Errorf("offered %s, want %s; %v", n.lists(), want, v.Problems)
			}
		})
	}
	for name, fault := range faults {
		for what, nothing := range nothings {
			t.Run(name+": "+what, func(t *testing.T) { run(t, fault, nothing, false) })
		}
		for what, e := range evidence {
			if what != "reset by others" {
				t.Run(name+": "+what, func(t *testing.T) { run(t, fault, e, true) })
			} else if name != "lost" { // one that is lost cannot be reset
				t.Run(name+": "+what, func(t *testing.T) { run(t, fault, e, byOthers[name]) })
			}
		}
	}
}

func (n *node) must(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) lose(gpu int) {
	n.t.Helper()
	n.must(n.machine.Lose(gpu))
}

// settle lets three minutes pass, with a pass every ten seconds.
func (n *node) settle() {
	n.t.Helper()
	for range 18 {
		n.converge()
		<-time.After(10 * time.Second)
	}
}

// H06: a fault of the GPU hits every share and every slice, one with instance ids exactly that slice; the others take nothing new by
// DRA, for the GPU is to be reset.
func TestFaultHitsExactly(t *testing.T) {
	n := newNode(t, "1xl40s")
	n.apply(layout("{timeSlicing: {replicas: 4}}"))
	n.xid(0, 79, whole)
	n.offers("gpu=0-4")

	n = newNode(t, "2xh100-sxm5-80gb")
	n.apply(layout("{mig: {fill: 1g}, timeSlicing: {replicas: 2}}"))
	n.offers("mig-1g.10gb=28")
	n.xid(0, 95, n.gi(0, "1g.10gb@3"))
	n.offers("mig-1g.10gb=26-2")
	view, _ := n.View()
	for _, d := range view.Devices {
		is := fmt.Sprintf("fault=%t pending=%t", d.Fault != "", d.Pending != "")
		want := map[string]string{"gpu-0": "fault=false pending=true", "gpu-1": "fault=false pending=false"}[d.GPU.Name()]
		if d.GPU.Name() == "gpu-0" && d.Instance.Slot.Start == 3 {
			want = "fault=true pending=false"
		}
		if is != want {
			t.Errorf("%s: %s, want %s", d.Name, is, want)
		}
	}
	n.xid(0, 79, whole)
	n.offers("mig-1g.10gb=14-14")
}

// gi is the driver's id of an instance.
func (n *node) gi(gpu int, slot string) int {
	n.t.Helper()
	for _, g := range n.machine.GPUs() {
		for _, i := range g.Instances {
			if g.Number == gpu && i.Slot == slot {
				return i.GI
			}
		}
	}
	n.t.Fatalf("gpu-%d has no %s", gpu, slot)
	return 0
}

// H11: what a GPU says of itself counts before the first list: one that needs a reset is not offered, one that has only counted
// errors is.
func TestSickAtStart(t *testing.T) {
	n := newNode(t, "gpus:\n- {model: h100-sxm5-80gb}\n- {model: h100-sxm5-80gb, signs: {uncorrected: \"1\", recovery-action: reset}}\n- {model: h100-sxm5-80gb, signs: {uncorrected: \"7\", remap-pending: \"1\"}}\n")
	n.converge()
	n.offers("gpu=2-1")
	n.problem(agent.ReasonGPUUnhealthy, "gpu-1")
}

// Rows that could not be remapped are a fault where the driver does not say what the GPU needs, and none where it says nothing is.
func TestRemapFailure(t *testing.T) {
	for version, want := range map[string]string{"560.35.03": "gpu=0-1", "580.65.06": "gpu=1"} {
		n := newNode(t, "driver: {version: "+version+"}\ngpus:\n- {model: h100-sxm5-80gb, signs: {remap-failed: \"1\"}}\n")
		for range 3 {
			n.converge()
			if n.lists() != want {
				t.Errorf("driver %s: offered %s, want %s", version, n.lists(), want)
			}
		}
	}
}

// H12: the most severe counts, in either order, and what comes later never makes less of it.
func TestSeverityIsSticky(t *testing.T) {
	for _, xids := range [][]uint64{{79, 13}, {13, 79}, {79, 48}, {48, 79}, {79, 43}} {
		n := newNode(t, "driver: {version: \"550.54.15\"}\ngpus:\n- {model: l40s, count: 2}\n")
		n.converge()
		for _, xid := range xids {
			n.xid(0, xid, whole)
		}
		n.offers("gpu=1-1")
		n.problem(agent.ReasonGPUUnhealthy, "XID 79: needs a reboot")
	}
}

// H03: the config says what XIDs mean, from the next event on.
func TestXIDsAreOverridden(t *testing.T) {
	n := newNode(t, "driver: {version: \"550.54.15\"}\ngpus:\n- {model: l40s, count: 4}\n")
	n.converge()
	n.xid(0, 109, whole)
	n.offers("gpu=3-1")
	n.apply(head + "health: {xids: {'109': ignore, '31': reset}}\n")
	n.xid(1, 109, whole)
	n.offers("gpu=3-1")
	n.xid(1, 31, whole)
	n.offers("gpu=2-2")
	n.problem(agent.ReasonGPUUnhealthy, "gpu-1: XID 31: needs a reset")
}

// A GPU that is lost in one session of the driver and answers in the next is not sick: nothing is held against it.
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

// All GPUs lost at once is our way to them: they are offered as before, and nothing is held against them.
func TestAllLostIsOurs(t *testing.T) {
	n := newNode(t, "3xl40s")
	n.converge()
	for gpu := range 3 {
		n.lose(gpu)
	}
	for range 3 {
		n.converge()
		n.offers("gpu=3")
		n.problem(agent.ReasonAccessLost, "all 3 GPUs")
	}
	for gpu := range 3 {
		n.must(n.machine.Restore(gpu))
	}
	n.converge()
	n.offers("gpu=3")
	n.noProblems()
}

// The agent resets a sick GPU itself where it may, once nobody uses it, and cuts it again; where the driver refuses it tries later,
// not at once.
func TestAgentResets(t *testing.T) {
	when := head + "layouts: {it: {mig: {fill: 1g}}}\nnodes: [{gpus: [{layout: it, reset: when-idle}]}]\n"
	n := newNode(t, "1xh100-sxm5-80gb")
	n.apply(when)
	n.must(n.machine.Persistence(0, true))
	n.converge()
	id := n.uuid(0, "1g.10gb@2")
	n.kubelet.set(nil, holder("mig-1g.10gb", id, "trainer"))
	n.sign(0, "recovery-action", "reset")
	n.converge()
	n.offers("mig-1g.10gb=0-7")
	n.problem(agent.ReasonGPUUnhealthy, "the agent resets it once nobody uses it")
	if n.resets() != 0 {
		t.Error("reset while in use")
	}
	n.kubelet.set(nil)
	n.until(func() bool { return n.lists() == "mig-1g.10gb=7" })
	n.noProblems()
	if n.resets() != 1 || !n.machine.GPUs()[0].Persistence {
		t.Errorf("%d resets, persistence %t", n.resets(), n.machine.GPUs()[0].Persistence)
	}
}

// resets counts the resets that were tried.
func (n *node) resets() (count int) {
	for _, a := range n.machine.Log() {
		if a.Call == "Reset" {
			count++
		}
	}
	return count
}

// A reset that does not help is tried at once, after a minute, after two more: not at every look, and not anew after a restart.
func TestResetsAreSpacedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, "gpus:\n- {model: h100-sxm5-80gb, reset: ignored, signs: {recovery-action: reset}}\n- {model: h100-sxm5-80gb}\n")
		n.apply(head + "layouts: {it: {}}\nnodes: [{gpus: [{layout: it, reset: when-idle}]}]\n")
		at := []time.Time{}
		start := time.Now()
		for time.Since(start) < 10*time.Minute {
			n.converge()
			if n.resets() > len(at) {
				at = append(at, time.Now())
				n.start()
			}
			<-time.After(10 * time.Second)
		}
		if len(at) != 4 {
			t.Fatalf("resets at %v", at)
		}
		for i, wait := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute} {
			if gap := at[i+1].Sub(at[i]); gap < wait || gap > wait+time.Minute {
				t.Errorf("%s between resets %d and %d, want %s", gap, i+1, i+2, wait)
			}
		}
		n.offers("gpu=1-1")
	})
}

// A fault that comes in the middle of something is not lost, whatever it is in the middle of: every effect of a plan, an answer to the
// kubelet, a claim that is prepared or let go.
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

// pci is the address of a GPU.
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

// H15: what is free is counted device by device: a GPU that is allocated and sick is not minus one.
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

// 1,000 XIDs in a moment are 1,000 counts and few words.
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
		kinds = append(kinds, string(c.Kind)+" "+strings.Join(c.Pods, ","))
	}
	if got, want := strings.Join(kinds, "; "), "unhealthy team-a/trainer; noted team-a/trainer"; got != want {
		t.Errorf("told %s, want %s", got, want)
	}
}

// What people write is followed as far as it can be understood, and the rest is named.
func TestFaultsReportedByOthers(t *testing.T) {
	n := newNode(t, "2xl40s")
	n.converge()
	n.word(agent.FaultAnnotation, n.uuid(0, "")+"=fan broken, GPU-none=x, nonsense,"+n.uuid(1, "")+"=")
	n.offers("gpu=1-1")
	n.problem(agent.ReasonGPUUnhealthy, "gpu-0: reported (fan broken)")
	n.problem(agent.ReasonAnnotationInvalid, "no GPU is called \"GPU-none\"; there are "+n.uuid(0, "")+" (gpu-0)")
	n.problem(agent.ReasonAnnotationInvalid, "\"nonsense\" is not of the form <uuid>=<reason>")
	n.word(agent.FaultAnnotation, "")
	n.offers("gpu=1-1")
	n.word(agent.ClearAnnotation, "gpu-0")
	n.offers("gpu=2")
	n.xid(0, 79, whole)
	n.offers("gpu=1-1")
	for _, word := range []string{"gpu-0", "gpu-0=again"} { // the word of before is not followed twice
		n.word(agent.ClearAnnotation, word)
		n.offers(map[string]string{"gpu-0": "gpu=1-1", "gpu-0=again": "gpu=2"}[word])
	}
}
