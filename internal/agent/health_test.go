// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent_test

import (
	"fmt"
	"slices"
	"testing"

	"gpuslice/internal/agent"
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

// let converges until others could reset a GPU.

// H01: an application's XID takes nothing away. One that needs a reset does, until somebody resets the GPU: the same process offers

// it again then.

// H02: what a GPU has survives a restart; only what proves that it is over ends it.

// What heals a fault is the evidence of its class and nothing else: not time, reads without a complaint, restarts, the reset of

// another GPU, or the evidence of another class.

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

// A cut GPU of which a slice is sick is let go of only when nothing can be given out on it any more: by DRA two minutes after the

// taint, because a claim may have been allocated before; by the device plugin never, for its other slices go on.

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

// All GPUs lost at once is our way to them: they are offered as before, and nothing is held against them.

// A GPU that is lost after another one is its own: only what happens to all at once is this process's.

// A GPU that is lost while another's call hangs cannot be asked for in another session: it is unhealthy, and nobody looks at it in a

// loop.

// The agent resets a sick GPU itself where it may, once nobody uses it, and cuts it again; where the driver refuses it tries later,

// not at once.

// resets counts the resets that were tried.

// A reset that does not help is tried at once, after a minute, after two more: not at every look, and not anew after a restart.

// A fault that comes in the middle of something is not lost, whatever it is in the middle of: every effect of a plan, an answer to the

// kubelet, a claim that is prepared or let go.

// pci is the address of a GPU.

// H15: what is free is counted device by device: a GPU that is allocated and sick is not minus one.

// 1,000 XIDs in a moment are 1,000 counts and few words.

// What people write is followed as far as it can be understood, and the rest is named.
