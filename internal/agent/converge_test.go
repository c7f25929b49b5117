// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpuslice/internal/agent"
	"gpuslice/internal/kubelet"
	"gpuslice/internal/state"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
)

// No config at all changes nothing: a first install is invisible to the hardware (P8).
func TestFirstInstallChangesNothing(t *testing.T) {
	n := newNode(t, "2xh100-sxm5-80gb,1xl40s")
	n.converge()
	n.cut("gpu-0 h100-sxm5-80gb mig=off\ngpu-1 h100-sxm5-80gb mig=off\ngpu-2 l40s")
	n.offers("gpu=3")
	n.noProblems()
	if log := n.machine.Log(); len(log) != 0 {
		t.Errorf("hardware was written to: %v", log)
	}
}

func TestConfigBecomesInstances(t *testing.T) {
	n := newNode(t, "1xh100-sxm5-80gb,1xl40s")
	n.apply(layout("{mig: {instances: {3g.40gb: 1, 1g.10gb: 3}}}"))
	n.cut("gpu-0 h100-sxm5-80gb mig=on [1g.10gb@0 1g.10gb@1 1g.10gb@2 3g.40gb@4]\ngpu-1 l40s")
	n.offers("gpu=1 mig-1g.10gb=3 mig-3g.40gb=1")
	n.problem(agent.ReasonImpossible, "gpu-1 (l40s) is not MIG capable")
}

// P2, M12: a change keeps what can stay, above all what is in use; the busy slice keeps its UUID.
func TestEditAroundABusySlice(t *testing.T) {
	n := newNode(t, "1xh100-sxm5-80gb")
	n.apply(layout("{mig: {instances: {3g.40gb: 1, 1g.10gb: 3}}}"))
	busy := n.uuid(0, "3g.40gb@4")
	n.kubelet.set(nil, holder("mig-3g.40gb", busy, "trainer"))
	n.apply(layout("{mig: {instances: {3g.40gb: 1, 2g.20gb: 1, 1g.10gb: 1}}}"))
	n.cut("gpu-0 h100-sxm5-80gb mig=on [2g.20gb@0 1g.10gb@2 3g.40gb@4]")
	if after := n.uuid(0, "3g.40gb@4"); after != busy || n.destroys("3g.40gb@4") != 0 {
		t.Errorf("the busy slice is now %s, was %s; %d destroy attempts", after, busy, n.destroys("3g.40gb@4"))
	}
	n.noProblems()
}

// P2, P11: what stands in the way is named, nothing happens on that GPU, and the change happens when the holder goes.
func TestBlockedChangeWaitsForItsHolder(t *testing.T) {
	n := newNode(t, "2xh100-sxm5-80gb")
	n.apply(layout("{mig: {instances: {3g.40gb: 2}}}"))
	n.kubelet.set(nil, holder("mig-3g.40gb", n.uuid(0, "3g.40gb@0"), "trainer"))
	n.apply(layout("{mig: {instances: {7g.80gb: 1}}}"))
	n.cut("gpu-0 h100-sxm5-80gb mig=on [3g.40gb@0 3g.40gb@4]\ngpu-1 h100-sxm5-80gb mig=on [7g.80gb@0]")
	n.problem(agent.ReasonBlocked, "gpu-0: 3g.40gb@0 in use by team-a/trainer/main")
	n.offers("mig-3g.40gb=2 mig-7g.80gb=1")
	n.kubelet.set(nil)
	n.converge()
	n.cut("gpu-0 h100-sxm5-80gb mig=on [7g.80gb@0]\ngpu-1 h100-sxm5-80gb mig=on [7g.80gb@0]")
	n.noProblems()
}

// P2: every source of use protects, and a source that cannot be read protects everything.
func TestEverySourceOfUseProtects(t *testing.T) {
	for _, tc := range []struct {
		name string
		hold func(*node)
		says string
	}{
		{"a pod", func(n *node) {
			n.kubelet.set(nil, holder("mig-3g.40gb", n.uuid(0, "3g.40gb@0"), "p"))
		}, "team-a/p/main"},
		{"an init container, which only the checkpoint knows", func(n *node) {
			n.kubelet.set(nil, kubelet.Allocation{Resource: "nvidia.com/mig-3g.40gb", ID: n.uuid(0, "3g.40gb@0"), Holder: "pod 1234/init"})
		}, "pod 1234/init"},
		{"a host process", func(n *node) {
			gi := n.machine.GPUs()[0].Instances[0]
			if err := n.machine.StartProcess(0, sim.Process{PID: 4711, GI: gi.GI, CI: gi.CI}); err != nil {
				n.t.Fatal(err)
			}
		}, "pid 4711"},
		{"an answer of ours that the kubelet has not recorded yet", func(n *node) {
			if _, err := n.Allocate("nvidia.com/mig-3g.40gb", [][]string{{n.uuid(0, "3g.40gb@0")}}); err != nil {
				n.t.Fatal(err)
			}
		}, "an allocation of"},
		{"a kubelet that does not answer", func(n *node) { n.kubelet.set(errors.New("connection refused")) }, "connection refused"},
		{"an agent outside the host's PID namespace", func(n *node) { n.kubelet.record.ForeignPIDs = true }, "hostPID"},
		{"a process list that is refused", func(n *node) {
			if _, err := n.machine.Fail(sim.Fault{Call: "Processes", Code: devices.ErrNoPermission}); err != nil {
				n.t.Fatal(err)
			}
		}, "NO_PERMISSION"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := newNode(t, "1xh100-sxm5-80gb")
			n.apply(layout("{mig: {slots: [3g.40gb@0]}}"))
			tc.hold(n)
			n.apply(layout("{mig: {slots: [7g.80gb@0]}}"))
			n.uuid(0, "3g.40gb@0")
			n.problem(agent.ReasonBlocked, tc.says)
			if d := n.destroys("3g.40gb@0"); d != 0 {
				t.Errorf("%d destroy attempts", d)
			}
		})
	}
}

// A claim protects as a pod does, and gives its slot back.
func TestAClaimProtects(t *testing.T) {
	n := newNode(t, "1xh100-sxm5-80gb")
	dra := strings.Replace(layout("{mig: {slots: [3g.40gb@0]}}"), "layout: it", "layout: it, serve: dra", 1)
	n.apply(dra)
	claim := state.Claim{UID: "u1", Namespace: "team-a", Name: "c", Devices: make([]state.Device, 1)}
	if _, err := n.Reserve(claim, []string{"gpu-0-mig-3g40gb-9-0"}); err != nil {
		t.Fatal(err)
	}
	n.apply(strings.Replace(dra, "3g.40gb@0", "7g.80gb@0", 1))
	n.problem(agent.ReasonBlocked, "3g.40gb@0 in use by claim team-a/c")
	n.start() // the intent survives a restart (P6)
	n.converge()
	n.cut("gpu-0 h100-sxm5-80gb mig=on [3g.40gb@0]")
	if err := n.Release("u1"); err != nil {
		t.Fatal(err)
	}
	n.converge()
	n.cut("gpu-0 h100-sxm5-80gb mig=on [7g.80gb@0]")
}

// P5: a bad config changes nothing, says why, and the last good one holds over a restart.
func TestBadConfigChangesNothing(t *testing.T) {
	n := newNode(t, "1xh100-sxm5-80gb")
	n.apply(layout("{mig: {fill: 2g}}"))
	before := n.machine.Dump()
	err := n.SetConfig("config.yaml", []byte(layout("{mig: {fil: 1g}}")))
	if err == nil || !strings.Contains(err.Error(), "did you mean fill?") {
		t.Fatalf("SetConfig = %v", err)
	}
	n.converge()
	n.problem(agent.ReasonConfigInvalid, "did you mean fill?")
	n.cut(before)
	n.offers("mig-2g.20gb=3")
	if view, _ := n.View(); view.Targets[0].Policy.LayoutName != "it" {
		t.Errorf("the config in force has no layout for %s any more", view.Targets[0].GPU)
	}
	n.machine.Reboot() // takes the instances away: only a config that is still in force brings them back
	n.start()
	n.converge()
	n.cut(before)
	n.apply(layout("{mig: {fill: 3g}}"))
	n.noProblems()
}

// M15: instances vanish with a reboot; they are back before the first list.
func TestLayoutIsBackAfterReboot(t *testing.T) {
	n := newNode(t, "1xh100-sxm5-80gb")
	n.apply(layout("{mig: {fill: 1g}}"))
	before := n.machine.Dump()
	n.machine.Reboot()
	n.start()
	if view, _ := n.View(); view != nil {
		t.Fatal("something is offered before the layout was verified")
	}
	n.converge()
	n.cut(before)
	n.offers("mig-1g.10gb=7")
	if view, _ := n.View(); view.Generation != 0 {
		t.Errorf("%d views were published before the layout was complete", view.Generation)
	}
}

// M01: names one GB off mean the same profile, with a word about it.
func TestAliasNames(t *testing.T) {
	n := newNode(t, "1xh100-sxm5-80gb")
	n.apply(layout("{mig: {instances: {7g.79gb: 1}}}"))
	n.cut("gpu-0 h100-sxm5-80gb mig=on [7g.80gb@0]")
	n.problem(agent.ReasonAlias, "7g.79gb is called 7g.80gb")
}

// M24: instances that others make on an unmanaged GPU are offered as found and never touched (P8).
func TestForeignInstancesAppear(t *testing.T) {
	n := newNode(t, "1xh100-sxm5-80gb")
	n.converge()
	n.offers("gpu=1")
	other := devices.New(n.machine.Open(sim.Admin("other")), devices.Options{})
	seen, err := other.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	g := seen.GPUs[0]
	slot, _, err := g.Geometry.ParseSlot("1g.10gb@6")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(other.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	n.machine.CloseClient("agent") // mode changes need the GPU to themselves
	hand := devices.New(n.machine.Open(sim.Admin("hand")), devices.Options{})
	if _, err := hand.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(hand.On(g.PCI).SetMode(t.Context(), true), hand.On(g.PCI).Create(t.Context(), slot), hand.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	n.start()
	n.converge()
	n.offers("mig-1g.10gb=1")
	for _, a := range n.machine.Log() {
		if a.Client == "agent" {
			t.Errorf("the agent wrote: %+v", a)
		}
	}
}

// P3: one lost GPU is unhealthy alone, and keeps its place in the list. That it answers again is no evidence that it is well; the
// admin's word is.
func TestLostGPU(t *testing.T) {
	n := newNode(t, "4xh100-sxm5-80gb")
	n.converge()
	if err := n.machine.Lose(2); err != nil {
		t.Fatal(err)
	}
	for range 3 { // it keeps its place however often one looks
		n.converge()
		n.offers("gpu=3-1")
	}
	n.problem(agent.ReasonGPUUnhealthy, "gpu-2: unreachable (off the bus)")
	if _, err := n.Allocate("nvidia.com/gpu", [][]string{{n.uuid(2, "")}}); err == nil {
		t.Error("a lost GPU was given out")
	}
	if err := n.machine.Restore(2); err != nil {
		t.Fatal(err)
	}
	n.converge()
	n.offers("gpu=3-1")
	n.word(agent.ClearAnnotation, n.uuid(2, ""))
	n.offers("gpu=4")
	n.noProblems()
}

// K09, K10, K11: no driver is a state, not an end; it is picked up when it appears.
func TestDriverAppears(t *testing.T) {
	n := newNode(t, "2xl40s")
	if err := n.machine.UnloadDriver(); err != nil {
		t.Fatal(err)
	}
	n.converge()
	n.offers("")
	n.problem(agent.ReasonNoDriver, "DRIVER_NOT_LOADED")
	n.machine.LoadDriver("")
	n.converge()
	n.offers("gpu=2")
	n.noProblems()
	n.machine.MismatchDriver()
	n.start()
	n.converge()
	n.offers("")
	n.problem(agent.ReasonNoDriver, "LIB_RM_VERSION_MISMATCH")
	n.machine.LoadDriver("")
	n.converge()
	n.offers("gpu=2")
}

// What this version leaves out is said, never silently ignored.
func TestNotSupportedYet(t *testing.T) {
	for _, tc := range []struct{ config, says, offers string }{
		{strings.Replace(layout("{mig: {dynamic: true}}"), "layout: it", "layout: it, serve: dra", 1), "dynamic MIG", ""},
		{strings.Replace(layout("{timeSlicing: {replicas: 2}}"), "layout: it", "layout: it, serve: dra", 1), "time slicing through DRA", ""},
	} {
		n := newNode(t, "1xh100-sxm5-80gb")
		n.apply(tc.config)
		n.problem(agent.ReasonNotSupportedYet, tc.says)
		n.offers(tc.offers)
	}
}

// K04: more shares than the kubelet's message holds are refused with the arithmetic, for every GPU that has them, before anything
// is listed; the boundary is that of the message.
func TestTooManyShares(t *testing.T) {
	few := layout("{timeSlicing: {replicas: 4}}")
	n := newNode(t, "8xl40s")
	n.apply(few)
	n.offers("gpu=32")
	n.apply(layout("{timeSlicing: {replicas: 16384}}"))
	n.problem(agent.ReasonImpossible, "131072 shares on 8 GPUs (up to 16384 of a device) take about 8.8 MiB")
	n.offers("gpu=32")
	largest := agent.MaxListed / 8
	n.apply(layout(fmt.Sprintf("{timeSlicing: {replicas: %d}}", largest)))
	n.offers(fmt.Sprintf("gpu=%d", 8*largest))
	n.noProblems()
	n.apply(layout(fmt.Sprintf("{timeSlicing: {replicas: %d}}", largest+1)))
	n.problem(agent.ReasonImpossible, "lower replicas")
	n.offers(fmt.Sprintf("gpu=%d", 8*largest))
}

// P1: one name through both APIs is said, because the scheduler then serves it through one of them only.
func TestSplitResource(t *testing.T) {
	for _, tt := range []struct {
		first, second string
		split         bool
	}{
		{"{layout: whole}", "{layout: whole, serve: dra}", true},
		{"{layout: whole}", "{layout: whole}", false},
		{"{layout: all-1g}", "{layout: whole, serve: dra}", false},
		{"{layout: all-1g}", "{layout: all-1g, serve: dra}", true},
		{"{layout: whole, serve: none}", "{layout: whole, serve: dra}", false},
	} {
		n := newNode(t, "2xh100-sxm5-80gb")
		n.apply(head + "nodes: [{gpus: [" + strings.Replace(tt.first, "{", "{select: {index: 0}, ", 1) + ", " + tt.second + "]}]\n")
		if got := n.has(agent.ReasonSplitResource); got != tt.split {
			t.Errorf("%s beside %s: split is %t", tt.first, tt.second, got)
		}
	}
}

// A slot that is listed twice is a mistake, under whichever name.
func TestSlotListedTwice(t *testing.T) {
	for _, slots := range []string{"1g.10gb@0, 1g.10gb@0", "1g.10gb@0, 1g.11gb@0"} {
		n := newNode(t, "1xh100-sxm5-80gb")
		n.apply(layout("{mig: {slots: [" + slots + "]}}"))
		n.problem(agent.ReasonImpossible, "one of them is listed twice")
		n.offers("gpu=1")
	}
}

// P8: GPUs that no rule selects are never changed, beside one that is.
func TestUnmanagedGPUsStay(t *testing.T) {
	n := newNode(t, "2xh100-sxm5-80gb")
	n.apply(head + "nodes: [{gpus: [{select: {index: 0}, layout: all-1g}]}]\n")
	n.apply(head + "nodes: [{gpus: [{select: {index: 1}, layout: whole}]}]\n")
	n.cut("gpu-0 h100-sxm5-80gb mig=on [1g.10gb@0 1g.10gb@1 1g.10gb@2 1g.10gb@3 1g.10gb@4 1g.10gb@5 1g.10gb@6]\ngpu-1 h100-sxm5-80gb mig=off")
	n.offers("gpu=1 mig-1g.10gb=7")
}

// M07: a profile that the GPU lacks is an error that lists what it has, and nothing is cut.
func TestWrongProfileIsAnError(t *testing.T) {
	n := newNode(t, "1xh100-sxm5-80gb")
	n.apply(layout("{mig: {instances: {2g.10gb: 1}}}"))
	n.problem(agent.ReasonImpossible, `"2g.10gb": not a profile of this GPU; it has 1g.10gb x7`)
	n.cut("gpu-0 h100-sxm5-80gb mig=off")
	n.offers("gpu=1")
	n.apply(layout("{mig: {instances: {3g.40gb: 3}}}"))
	n.problem(agent.ReasonImpossible, "3 instances of 3g.40gb, at most 2 are possible")
	n.cut("gpu-0 h100-sxm5-80gb mig=off")
}

// M05: a GPU that no table of ours has works on day one, by the profiles that its own driver lists.
func TestUnknownModelIsCutByItsDriver(t *testing.T) {
	file := filepath.Join(t.TempDir(), "machine.yaml")
	if err := os.WriteFile(file, []byte(unknownMachine), 0o600); err != nil {
		t.Fatal(err)
	}
	n := newNode(t, "@"+file)
	n.apply(head + "nodes: [{gpus: [{layout: all-1g}]}]\n")
	n.offers("mig-1g.33gb=7")
	n.apply(head + "nodes: [{gpus: [{layout: balanced}]}]\n")
	n.offers("mig-1g.33gb=2 mig-2g.66gb=1 mig-3g.132gb=1")
	n.noProblems()
}

// M26: whatever is asked for in whatever order, each GPU ends as the plan says, and nothing that is held is ever tried.
func TestRandomEditsEndAsPlanned(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	profiles := map[string][]string{
		"1xh100-sxm5-80gb": {"1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"},
		"1xb200-180gb":     {"1g.23gb", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"},
	}
	for spec, names := range profiles {
		n := newNode(t, spec)
		impossible := 0
		for range 100 {
			text := []string{}
			for range 1 + random.IntN(3) {
				text = append(text, fmt.Sprintf("%s: %d", names[random.IntN(len(names))], 1+random.IntN(2)))
			}
			slices.Sort(text)
			before := n.machine.Dump()
			config := layout("{mig: {instances: {" + strings.Join(slices.CompactFunc(text, func(a, b string) bool { return a[:6] == b[:6] }), ", ") + "}}}")
			n.apply(config)
			view, _ := n.View()
			want := map[string]int{}
			for _, x := range view.Targets[0].Plan.Steps {
				t.Fatalf("%s left to do after %s", x, config)
			}
			if len(view.Problems) > 0 {
				impossible++
				n.cut(before)
				continue
			}
			maps.Copy(want, view.Targets[0].Policy.Layout.MIG.Instances)
			for _, i := range n.machine.GPUs()[0].Instances {
				name, _, _ := strings.Cut(i.Slot, "@")
				want[name]--
			}
			for name, left := range want {
				if left != 0 {
					t.Fatalf("%s: %d of %s are missing: %s", config, left, name, n.machine.Dump())
				}
			}
		}
		if impossible == 0 || impossible == 100 {
			t.Errorf("%s: %d of 100 wishes were impossible; the test has lost its point", spec, impossible)
		}
		for _, a := range n.machine.Log() {
			if a.Client != "agent" {
				t.Errorf("another writer: %+v", a)
			}
		}
	}
}

const unknownMachine = `
models:
  x999:
    name: NVIDIA X999
    architecture: 12
    memoryMiB: 270000
    sms: 160
    memorySlices: 8
    computeSlices: 7
    profiles:
    - {name: 1g.33gb, id: 19, enum: 0, slices: 1, maxInstances: 7, sms: 20, memoryMiB: 32768, size: 1, starts: [0, 1, 2, 3, 4, 5, 6]}
    - {name: 2g.66gb, id: 14, enum: 1, slices: 2, maxInstances: 3, sms: 40, memoryMiB: 67000, size: 2, starts: [0, 2, 4]}
    - {name: 3g.132gb, id: 9, enum: 2, slices: 3, maxInstances: 2, sms: 60, memoryMiB: 134000, size: 4, starts: [0, 4]}
    - {name: 7g.264gb, id: 0, enum: 4, slices: 7, maxInstances: 1, sms: 160, memoryMiB: 268000, size: 8, starts: [0]}
gpus: [{model: x999}]
`
