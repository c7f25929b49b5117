// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"gpuslice/internal/agent"
	"gpuslice/pkg/health"
)

func (n *node) others(gpu int) {
	n.t.Helper()
	if err := n.machine.Reset(gpu); err != nil {
		n.t.Fatalf("reset by others: %v", err)
	}
}

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
	n.problem(agent.ReasonGPUUnhealthy, "nvidia-smi -r -i 0000:28:00.0 works once nobody uses it")
	if err := n.machine.Reset(2); err == nil {
		t.Error("a GPU that is well was let go of")
	}
	n.others(3)
	n.until(func() bool { return n.lists() == "gpu=8" })
	n.noProblems()
}

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

func (n *node) settle() {
	n.t.Helper()
	for range 18 {
		n.converge()
		<-time.After(10 * time.Second)
	}
}

func TestPartlySickGPUIsLetGo(t *testing.T) {
	for serve, want := range map[string]string{"dra": "held until 2m0s", "device-plugin": "held until never"} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, "driver: {version: \"550.54.15\"}\ngpus:\n- {model: h100-sxm5-80gb, count: 2}\n")
			n.apply(head + "layouts: {it: {mig: {fill: 1g}}}\nnodes: [{gpus: [{layout: it, serve: " + serve + "}]}]\n")
			n.xid(0, 95, n.gi(0, "1g.10gb@3"))
			start, until := time.Now(), "never"
			for ; until == "never" && time.Since(start) < 10*time.Minute; <-time.After(10 * time.Second) {
				n.converge()
				if view, _ := n.View(); view.Node.GPUs[0].Released != "" {
					until = time.Since(start).Truncate(time.Minute).String()
				}
			}
			if got := "held until " + until; got != want {
				t.Errorf("%s: %s, want %s", serve, got, want)
			}
		})
	}
}

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

func (n *node) resets() (count int) {
	for _, a := range n.machine.Log() {
		if a.Call == "Reset" {
			count++
		}
	}
	return count
}

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

// A reset by others is seen after a restart in whatever state it met the GPU, as long as this process saw the demand before it let go:
// released by the admin, or with a demand that an admin had overruled before the fault.
func TestResetIsSeenAfterARestart(t *testing.T) {
	for name, story := range map[string]func(*node){
		"released": func(n *node) {
			n.sign(0, "recovery-action", "reset")
			n.xid(0, 48, whole, health.ActionReset)
			n.annotate(n.uuid(0, ""))
			n.start()
			n.settle()
			n.offers("gpu=1-1")
			n.others(0)
			n.annotate("")
		},
		"overruled": func(n *node) {
			n.sign(0, "recovery-action", "reset")
			n.converge()
			n.word(agent.ClearAnnotation, n.uuid(0, ""))
			n.settle()
			n.offers("gpu=2")
			n.sign(0, "power-limited", "1000") // which is only counted
			n.settle()
			n.offers("gpu=2")
			n.xid(0, 48, whole, health.ActionReset)
			n.start()
			n.settle()
			n.offers("gpu=1-1")
			n.let(0)
			n.others(0)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, "2xh100-sxm5-80gb")
			n.peek = 30 * time.Second
			n.start()
			n.converge()
			story(n)
			n.settle()
			if n.lists() != "gpu=2" {
				t.Errorf("%s: offered %s", name, n.lists())
			}
		})
	}
}

// What the agent says of a GPU that it looks at every now and then stays the same, and a config that says to change nothing does not
// keep others from resetting it.
func TestLookingIsNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, "2xh100-sxm5-80gb")
		n.apply(head + "layouts: {it: {}}\nnodes: [{paused: true, gpus: [{layout: it, reset: when-idle}]}]\n")
		n.sign(0, "recovery-action", "reset")
		n.settle()
		view, _ := n.View()
		said := fmt.Sprint(view.Problems)
		for range 30 {
			n.converge()
			if view, _ := n.View(); fmt.Sprint(view.Problems) != said {
				t.Errorf("said %s, then %v", said, view.Problems)
			}
			<-time.After(10 * time.Second)
		}
		if n.let(0); n.resets() != 0 {
			t.Error("reset although paused")
		}
		n.others(0)
	})
}

// A GPU that was pulled out while sick is not healthy for being named in a release; plugged in again, it is.
func TestPulledOutWhileSick(t *testing.T) {
	n := newNode(t, "driver: {version: \"550.54.15\"}\ngpus: [{model: l40s, count: 2}]\n")
	n.converge()
	id := n.uuid(0, "")
	n.kubelet.set(nil, holder("gpu", id, "trainer"))
	n.xid(0, 48, whole)
	n.must(n.machine.RemoveGPU(0))
	n.converge()
	n.offers("gpu=1-1")
	n.annotate(id)
	n.converge()
	n.offers("gpu=1-1")
	n.annotate("")
	n.must(n.machine.ReturnGPU(0, ""))
	n.until(func() bool { return n.lists() == "gpu=2" })
}

// A record that cannot be read is no evidence: the GPU had something.
func TestUnreadableHealth(t *testing.T) {
	n := newNode(t, "driver: {version: \"550.54.15\"}\ngpus: [{model: l40s, count: 2}]\n")
	n.converge()
	n.xid(0, 79, whole)
	n.must(os.WriteFile(filepath.Join(n.dir, "health", n.uuid(0, "")+".json"), nil, 0o600))
	for range 2 {
		n.start()
		n.converge()
		n.offers("gpu=1-1")
	}
	n.must(os.WriteFile(filepath.Join(n.dir, "health", n.uuid(0, "")+".json"), nil, 0o600))
	n.start()
	n.converge()
	n.problem(agent.ReasonStateUnreadable, n.uuid(0, ""))
	n.word(agent.ClearAnnotation, n.uuid(0, ""))
	n.offers("gpu=2")
	n.noProblems()
}
