// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent_test

import (
	"strings"
	"testing"
	"time"

	"gpuslice/internal/agent"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
)

// resettable is a config that cuts one GPU by index, and lets it be reset for that or not.
func resettable(index, layout, reset string) string {
	return head + "layouts: {it: " + layout + "}\nnodes: [{gpus: [{select: {index: " + index + "}, layout: it, reset: " + reset + "}]}]\n"
}

// calls lists the GPUs on which a call was made, by the machine's log.
func (n *node) calls(call string) []int {
	gpus := []int{}
	for _, a := range n.machine.Log() {
		if a.Call == call {
			gpus = append(gpus, a.GPU)
		}
	}
	return gpus
}

func (n *node) wantCalls(call string, want ...int) {
	n.t.Helper()
	got := n.calls(call)
	if len(got) != len(want) {
		n.t.Fatalf("%s on %v, want %v", call, got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			n.t.Errorf("%s on %v, want %v", call, got, want)
		}
	}
}

// hold is another client that works with a GPU.
func (n *node) session(name string, index int) devices.Driver {
	n.t.Helper()
	d := n.machine.Open(sim.Admin(name))
	if err := d.Init(); err != nil {
		n.t.Fatal(err)
	}
	if _, err := d.GPUByIndex(index); err != nil {
		n.t.Fatal(err)
	}
	return d
}

// M11, P2, P8: only the GPU whose mode must change is reset; its neighbour is in use, by a process and a session, and neither
// notices.
func TestOnlyTheGPUThatNeedsItIsReset(t *testing.T) {
	n := newNode(t, "2xa100-sxm4-40gb")
	if err := n.machine.StartProcess(0, sim.Process{PID: 4711, GI: devices.NoInstance, CI: devices.NoInstance}); err != nil {
		t.Fatal(err)
	}
	other := n.session("trainer", 0)
	n.apply(resettable("1", "{mig: {slots: [3g.20gb@4, 2g.10gb@0]}}", "when-idle"))
	n.cut("gpu-0 a100-sxm4-40gb mig=off\ngpu-1 a100-sxm4-40gb mig=on [2g.10gb@0 3g.20gb@4]")
	n.wantCalls("Reset", 1)
	n.wantCalls("SetMIGMode", 1)
	n.offers("gpu=1 mig-2g.10gb=1 mig-3g.20gb=1")
	n.noProblems()
	if gpu, err := other.GPUByIndex(0); err != nil {
		t.Errorf("the neighbour's session was disturbed: %v", err)
	} else if list, err := other.Processes(gpu, devices.ComputeProcess); err != nil || len(list) != 1 {
		t.Errorf("the neighbour's process: %v, %v", list, err)
	}
}

// P2: reset: never does not even ask the driver for the mode, because SetMigMode may itself reset a GPU.
func TestNeverIsNever(t *testing.T) {
	n := newNode(t, "1xa100-sxm4-40gb")
	n.apply(resettable("0", "{mig: {fill: 1g}}", "never"))
	n.problem(agent.ReasonResetRequired, "when-idle")
	n.wantCalls("SetMIGMode")
	n.wantCalls("Reset")
	n.offers("gpu=1")
	n.apply(resettable("0", "{mig: {fill: 1g}}", "when-idle")) // an edit is enough
	n.offers("mig-1g.5gb=7")
	n.noProblems()
	n.apply(resettable("0", "{mig: {fill: 2g}}", "never")) // what needs no reset goes on without one
	n.offers("mig-2g.10gb=3")
	n.wantCalls("Reset", 0)
	n.apply(resettable("0", "{}", "when-idle")) // M31: and back
	n.offers("gpu=1")
	n.wantCalls("Reset", 0, 0)
}

// A mode that somebody set before waits for a reset or a reboot, and comes true with either.
func TestPendingMode(t *testing.T) {
	machine := "gpus:\n- {model: a100-sxm4-40gb, pending: true}\n"
	n := newNode(t, machine)
	n.apply(resettable("0", "{mig: {fill: 1g}}", "never"))
	n.problem(agent.ReasonRebootRequired, "reset is never")
	n.wantCalls("SetMIGMode")
	n.machine.Reboot()
	n.start()
	n.converge()
	n.offers("mig-1g.5gb=7")
	n.noProblems()

	n = newNode(t, machine)
	n.apply(resettable("0", "{}", "when-idle")) // it is as it shall be, but would not be after the next reset
	n.cut("gpu-0 a100-sxm4-40gb mig=off")
	n.wantCalls("Reset")
	n.noProblems()
}

// M14, P4: a reset that is refused, or that answers success and does nothing, is not success. The reboot that is needed is
// said, nothing is reset again, and after it everything goes on by itself, also in a new process.
func TestResetThatDoesNotHelp(t *testing.T) {
	for _, kind := range []string{"unsupported", "ignored"} {
		t.Run(kind, func(t *testing.T) {
			n := newNode(t, "gpus:\n- {model: a100-sxm4-40gb, reset: "+kind+", persistence: true}\n")
			n.apply(resettable("0", "{mig: {fill: 1g}}", "when-idle"))
			n.problem(agent.ReasonRebootRequired, "a reboot of the node is needed")
			n.converge()
			n.start()
			n.converge()
			n.wantCalls("Reset", 0)
			n.problem(agent.ReasonRebootRequired, "")
			n.offers("gpu=1") // what it can still be used as
			if g := n.machine.GPUs()[0]; !g.Persistence {
				t.Error("persistence mode was not turned on again")
			}
			n.machine.Reboot()
			n.start()
			n.converge()
			n.offers("mig-1g.5gb=7")
			n.noProblems()
		})
	}
}

// P2: a session of somebody else holds the GPU: nothing of it is taken away, its holder is named, and the change goes through
// once it lets go, without an edit. Our own sessions are never in the way.
func TestForeignSessionBlocksModeChange(t *testing.T) {
	for _, tt := range []struct{ name, model, from, to, offered, after string }{
		{"Hopper on", "h100-sxm5-80gb", "{}", "{mig: {fill: 1g}}", "gpu=1", "mig-1g.10gb=7"},
		{"Hopper off", "h100-sxm5-80gb", "{mig: {fill: 1g}}", "{}", "mig-1g.10gb=7", "gpu=1"},
		{"Ampere on", "a100-sxm4-40gb", "{}", "{mig: {fill: 1g}}", "gpu=1", "mig-1g.5gb=7"},
		{"Ampere off", "a100-sxm4-40gb", "{mig: {fill: 1g}}", "{}", "mig-1g.5gb=7", "gpu=1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t, "1x"+tt.model)
			n.apply(resettable("0", tt.from, "when-idle"))
			n.session("dcgm", 0)
			before := len(n.machine.Log())
			n.apply(resettable("0", tt.to, "when-idle"))
			n.problem(agent.ReasonBlocked, "client dcgm")
			n.offers(tt.offered)
			if log := n.machine.Log()[before:]; len(log) > 0 {
				t.Errorf("attempts while it is held: %v", log)
			}
			n.machine.CloseClient("dcgm")
			n.converge()
			n.offers(tt.after)
			n.noProblems()
		})
	}
}

// A session that comes in between our look and the driver's answer is named all the same, and the plan is tried again.
func TestSessionThatComesInBetween(t *testing.T) {
	n := newNode(t, "1xa100-sxm4-40gb")
	n.converge()
	var late devices.Driver
	n.machine.SetHooks(sim.Hooks{BeforeEffect: func(call string) {
		if call == "SetMIGMode" && late == nil {
			late = n.session("late", 0)
		}
	}})
	n.apply(resettable("0", "{mig: {fill: 1g}}", "when-idle"))
	n.problem(agent.ReasonBlocked, "client late")
	n.machine.CloseClient("late")
	n.until(func() bool { return n.lists() == "mig-1g.5gb=7" })
	n.noProblems()
}

// Persistence mode holds a GPU against a mode change: it is off meanwhile and on again afterwards, also when the process is
// killed in between.
func TestPersistenceModeIsRestored(t *testing.T) {
	for _, model := range []string{"h100-sxm5-80gb", "a100-sxm4-40gb"} {
		for _, killed := range []bool{false, true} {
			n := newNode(t, "gpus:\n- {model: "+model+", persistence: true}\n")
			n.converge()
			if killed {
				n.machine.SetHooks(sim.Hooks{AfterEffect: func(call string) {
					if call == "SetPersistenceMode" {
						n.machine.CloseClient("agent") // its calls answer errors from now on, as in a process that is gone
					}
				}})
			}
			if err := n.SetConfig("config.yaml", []byte(resettable("0", "{mig: {fill: 1g}}", "when-idle"))); err != nil {
				t.Fatal(err)
			}
			if err := n.Converge(t.Context()); err != nil && !killed {
				t.Fatal(err)
			}
			if on := n.machine.GPUs()[0].Persistence; on == killed {
				t.Errorf("%s killed=%t: persistence is %t", model, killed, on)
			}
			n.machine.SetHooks(sim.Hooks{})
			if killed {
				n.start()
				n.converge()
				n.converge()
			}
			if g := n.machine.GPUs()[0]; !g.Persistence || len(g.Instances) != 7 {
				t.Errorf("%s killed=%t: persistence %t, %d instances", model, killed, g.Persistence, len(g.Instances))
			}
			n.noProblems()
		}
	}
}

// M18: which way the mode changes is decided by the GPU that is there, not by what was there at the start.
func TestModeWayIsDecidedAtRunTime(t *testing.T) {
	n := newNode(t, "driver: {state: unloaded}\ngpus:\n- {model: h100-sxm5-80gb}\n")
	n.apply(resettable("0", "{mig: {fill: 1g}}", "never"))
	n.problem(agent.ReasonNoDriver, "")
	n.machine.LoadDriver("")
	n.converge()
	n.offers("mig-1g.10gb=7")
	n.wantCalls("Reset")
	n.noProblems()
}

// M25: MIG mode was on and empty before the agent came: the layout is applied all the same. M31: or taken off.
func TestEmptyMIGMode(t *testing.T) {
	for layout, want := range map[string]string{"{mig: {fill: 1g}}": "mig-1g.10gb=7", "{}": "gpu=1"} {
		n := newNode(t, "gpus:\n- {model: h100-sxm5-80gb, mig: true}\n")
		n.apply(resettable("0", layout, "never"))
		n.offers(want)
		n.noProblems()
	}
}

// A reset may give the GPU another minor number: what is offered follows.
func TestResetMayRenumber(t *testing.T) {
	n := newNode(t, "gpus:\n- {model: a100-sxm4-40gb, renumberOnReset: true}\n- {model: a100-sxm4-40gb}\n")
	n.apply(resettable("0", "{mig: {fill: 1g}}", "when-idle"))
	n.converge()
	n.offers("gpu=1 mig-1g.5gb=7")
	view, _ := n.View()
	names := []string{}
	for _, d := range view.Devices {
		names = append(names, d.GPU.Name())
	}
	minor := n.machine.GPUs()[0].Minor
	if minor == 0 || !strings.HasSuffix(names[0], "gpu-"+string(rune('0'+minor))) {
		t.Errorf("devices on %v, the GPU has minor number %d now", names, minor)
	}
	n.noProblems()
}

// A reset that worked is not blamed for a step after it, and what fails later is said although a reset did not help before.
func TestResetIsBlamedForItselfOnly(t *testing.T) {
	n := newNode(t, "1xa100-sxm4-40gb")
	n.fail(sim.Fault{Call: "CreateCI", Nth: 1, Code: devices.ErrNotSupported})
	n.apply(resettable("0", "{mig: {slots: [3g.20gb@4]}}", "when-idle"))
	n.problem(agent.ReasonApplyFailed, "NOT_SUPPORTED")
	n.until(func() bool { return n.lists() == "mig-3g.20gb=1" })
	n.apply(resettable("0", "{}", "when-idle")) // resets still work
	n.offers("gpu=1")
	n.noProblems()

	n = newNode(t, "gpus:\n- {model: a100-sxm4-40gb, mig: true, reset: unsupported}\n")
	n.apply(resettable("0", "{}", "when-idle"))
	n.problem(agent.ReasonRebootRequired, "")
	n.fail(sim.Fault{Call: "CreateGI", Code: devices.ErrInsufficientResources})
	n.apply(resettable("0", "{mig: {fill: 1g}}", "when-idle"))
	n.problem(agent.ReasonApplyFailed, "INSUFFICIENT_RESOURCES")
}

func (n *node) fail(f sim.Fault) {
	n.t.Helper()
	if _, err := n.machine.Fail(f); err != nil {
		n.t.Fatal(err)
	}
}

// A mode that is as wanted now and will not be after the next reset is said where it may not be set back, and is set back where
// it may, also when a reset did not help before.
func TestStrayMode(t *testing.T) {
	n := newNode(t, "gpus:\n- {model: a100-sxm4-40gb, mig: true, pending: false}\n")
	n.apply(resettable("0", "{mig: {fill: 1g}}", "never"))
	n.problem(agent.ReasonModePending, "mig=off")
	n.offers("mig-1g.5gb=7")
	n.wantCalls("SetMIGMode")

	n = newNode(t, "gpus:\n- {model: a100-sxm4-40gb, mig: true, reset: unsupported}\n")
	n.apply(resettable("0", "{}", "when-idle"))
	n.problem(agent.ReasonRebootRequired, "")
	n.apply(resettable("0", "{mig: {fill: 1g}}", "when-idle"))
	n.offers("mig-1g.5gb=7")
	n.noProblems()
	n.machine.Reboot()
	n.start()
	n.converge()
	n.offers("mig-1g.5gb=7")
}

// P11: who works with a GPU is asked of the kernel, which may hang; then nobody knows, and nothing is changed.
func TestLookForClientsThatHangs(t *testing.T) {
	n := newNode(t, "1xh100-sxm5-80gb")
	options := n.options()
	options.CallLimit = 300 * time.Millisecond
	hanging := hungHolders{Holders: options.Holders, end: make(chan struct{})}
	options.Holders = hanging
	n.startWith(options)
	t.Cleanup(func() { close(hanging.end) })
	n.apply(layout("{mig: {fill: 1g}}"))
	n.problem(agent.ReasonBlocked, "unknown: look who works with GPU")
	n.offers("gpu=1")
	n.wantCalls("SetMIGMode")
}

// hungHolders does not answer before its end.
type hungHolders struct {
	devices.Holders
	end chan struct{}
}

func (h hungHolders) Clients(string, int) []string {
	<-h.end
	return nil
}
