// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent_test

import (
	"errors"
	"testing"

	"gpuslice/internal/agent"
	"gpuslice/internal/state"
	"gpuslice/pkg/devices"
)

func (n *node) annotate(value string) {
	n.t.Helper()
	n.word(agent.ReleaseAnnotation, value)
}

// word is an annotation of the Node.
func (n *node) word(key, value string) {
	n.t.Helper()
	if err := n.SetAnnotations(map[string]string{key: value}); err != nil {
		n.t.Fatal(err)
	}
	n.converge()
}

// One GPU is released for somebody else's reset: it can be reset, its devices stay in the lists and are not given out, claims
// on it are let go; the other one goes on as before.
func TestReleaseOneGPU(t *testing.T) {
	n := newNode(t, "2xh100-sxm5-80gb")
	n.apply(head + "nodes: [{gpus: [{select: {index: 0}, layout: whole}, {select: {index: 1}, layout: whole, serve: dra}]}]\n")
	held := state.Claim{UID: "u1", Namespace: "a", Name: "c", Devices: make([]state.Device, 1)}
	if _, err := n.Reserve(held, []string{"gpu-1"}); err != nil {
		t.Fatal(err)
	}
	if err := n.machine.Reset(1); !errors.Is(err, devices.ErrInUse) {
		t.Fatalf("before the release: %v", err)
	}
	n.annotate("gpu-1")
	n.problem(agent.ReasonReleased, "gpu-1")
	if err := n.machine.Reset(1); err != nil {
		t.Errorf("released, and the reset is refused: %v", err)
	}
	if err := n.machine.Reset(0); !errors.Is(err, devices.ErrInUse) {
		t.Errorf("the other GPU was released too: %v", err)
	}
	n.offers("gpu=1")
	if _, err := n.Allocate("nvidia.com/gpu", [][]string{{n.uuid(0, "")}}); err != nil {
		t.Errorf("the other GPU is not given out: %v", err)
	}
	if _, err := n.Reserve(held, []string{"gpu-1"}); err != nil {
		t.Errorf("a claim that holds the GPU gets its answer again: %v", err)
	}
	if err := n.Release("u1"); err != nil {
		t.Errorf("unprepare while released: %v", err)
	}
	other := state.Claim{UID: "u2", Namespace: "a", Name: "d", Devices: make([]state.Device, 1)}
	if _, err := n.Reserve(other, []string{"gpu-1"}); !errors.Is(err, devices.ErrReleased) {
		t.Errorf("a new claim on a released GPU: %v", err)
	}
	n.annotate("")
	if _, err := n.Reserve(other, []string{"gpu-1"}); err != nil {
		t.Errorf("taken back, and a claim is refused: %v", err)
	}
	if n.has(agent.ReasonReleased) {
		t.Error("taken back, and still said to be released")
	}
	n.annotate("gpu-7")
	n.problem(agent.ReasonReleased, "there are all, gpu-0, gpu-1")
}

// Every name that the inventory shows works, and a released GPU is not changed.
func TestReleaseByEveryName(t *testing.T) {
	for name, of := range map[string]func(devices.GPU) string{
		"UUID": func(g devices.GPU) string { return g.UUID }, "PCI": func(g devices.GPU) string { return g.PCI },
		"name": devices.GPU.Name, "index": func(devices.GPU) string { return " 0" }, "all": func(devices.GPU) string { return "all" },
	} {
		n := newNode(t, "1xh100-sxm5-80gb")
		n.converge()
		view, _ := n.View()
		n.annotate(of(view.Node.GPUs[0]))
		n.apply(layout("{mig: {fill: 1g}}"))
		n.offers("gpu=1")
		if log := n.machine.Log(); len(log) > 0 {
			t.Errorf("by %s: changed while released: %v", name, log)
		}
		if _, err := n.Allocate("nvidia.com/gpu", [][]string{{n.uuid(0, "")}}); !errors.Is(err, devices.ErrReleased) {
			t.Errorf("by %s: given out while released: %v", name, err)
		}
		n.annotate("")
		n.offers("mig-1g.10gb=7")
	}
}

// The driver manager's label releases all: the driver is unloaded and another one loaded, and the lists never lose an id.
func TestDriverUpgrade(t *testing.T) {
	for _, key := range []string{"device-plugin", "dra-driver", "client"} {
		n := newNode(t, "2xh100-sxm5-80gb")
		n.converge()
		if err := n.machine.UnloadDriver(); !errors.Is(err, devices.ErrInUse) {
			t.Fatalf("the driver was unloaded under the agent: %v", err)
		}
		n.label(map[string]string{"nvidia.com/gpu.deploy." + key: "paused-for-driver-upgrade"})
		n.problem(agent.ReasonReleased, key)
		n.offers("gpu=2")
		if err := n.machine.UnloadDriver(); err != nil {
			t.Errorf("%s: paused, and the driver is still held: %v", key, err)
		}
		n.converge()
		n.offers("gpu=2")
		n.label(map[string]string{"nvidia.com/gpu.deploy." + key: "true"})
		n.problem(agent.ReasonNoDriver, "")
		n.offers("gpu=0-2")
		n.machine.LoadDriver("590.10.01")
		n.converge()
		n.offers("gpu=2")
		n.noProblems()
		if view, _ := n.View(); view.Node.DriverVersion != "590.10.01" {
			t.Errorf("driver %s", view.Node.DriverVersion)
		}
	}
}

func (n *node) label(labels map[string]string) {
	n.t.Helper()
	if err := n.SetLabels(labels); err != nil {
		n.t.Fatal(err)
	}
	n.converge()
}

// P11: a call that hangs keeps the session from being closed; that is said, and nothing else stops.
func TestReleaseWhileACallHangs(t *testing.T) {
	n := newBoundedNode(t)
	n.converge()
	n.hang("Minor")
	n.converge()
	n.annotate("all")
	n.problem(agent.ReasonReleased, "have not returned")
}

// What the admin asked for holds over a restart, from the first look on: a GPU that is released by whichever name is not cut,
// not held and not given out.
func TestReleaseHoldsOverARestart(t *testing.T) {
	for _, name := range []string{"gpu-1", "1", "uuid"} {
		n := newNode(t, "2xh100-sxm5-80gb")
		n.apply(layout("{mig: {fill: 1g}}"))
		if name == "uuid" {
			name = n.uuid(1, "")
		}
		n.annotate(name)
		n.apply(layout("{mig: {fill: 2g}}"))
		before := len(n.machine.Log())
		n.start()
		n.converge()
		n.problem(agent.ReasonReleased, "gpu-1")
		if log := n.machine.Log()[before:]; len(log) > 0 {
			t.Errorf("%s: changed after the restart: %v", name, log)
		}
		if err := n.machine.Reset(1); err != nil {
			t.Errorf("%s: the GPU is held after the restart: %v", name, err)
		}
		if _, err := n.Allocate("nvidia.com/mig-1g.10gb", [][]string{{n.listed("nvidia.com/mig-1g.10gb")}}); !errors.Is(err, devices.ErrReleased) {
			t.Errorf("%s: given out after the restart: %v", name, err)
		}
	}
}

// listed is some id of a resource.
func (n *node) listed(resource string) string {
	n.t.Helper()
	view, _ := n.View()
	if len(view.Lists[resource]) == 0 {
		n.t.Fatalf("nothing is listed under %s: %v", resource, view.Resources())
	}
	return view.Lists[resource][0].ID
}

// A restart while all is released does not open the driver, and says why nothing new is offered; what is allocated stays listed.
func TestRestartDuringADriverUpgrade(t *testing.T) {
	n := newNode(t, "2xh100-sxm5-80gb")
	n.converge()
	n.kubelet.set(nil, holder("gpu", n.uuid(0, ""), "trainer"))
	n.label(map[string]string{"nvidia.com/gpu.deploy.client": "paused-for-driver-upgrade"})
	n.start()
	n.converge()
	n.problem(agent.ReasonReleased, "has not seen the GPUs of this node yet")
	n.offers("gpu=0-1")
	if err := n.machine.UnloadDriver(); err != nil {
		t.Errorf("the driver is held after the restart: %v", err)
	}
}
