// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gpuslice/internal/agent"
	"gpuslice/internal/kubelet"
	"gpuslice/internal/state"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
)

func claim(uid string) state.Claim {
	return state.Claim{UID: uid, Namespace: "ns", Name: uid, Devices: []state.Device{{Request: "r", Pool: "n1"}}}
}

// P1, P2, D01: what the intent of a claim says is lost, so nobody knows what it holds: nothing is given to other claims and
// nothing is taken away, until the kubelet asks for that claim again or lets it go.
func TestUnreadableIntentReservesEverything(t *testing.T) {
	for name, text := range map[string]string{"garbled": "{", "of a newer format": `{"version":99,"bootId":"x","claim":{"uid":"u1"}}`} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, "1xh100-sxm5-80gb")
			dra := strings.Replace(layout("{mig: {slots: [3g.40gb@0, 3g.40gb@4]}}"), "layout: it", "layout: it, serve: dra", 1)
			n.apply(dra)
			device := []string{"gpu-0-mig-3g40gb-9-0"}
			if _, err := n.Reserve(claim("u1"), device); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(n.dir, "claims/u1.json"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			n.start()
			n.converge()
			n.problem(agent.ReasonStateUnreadable, "u1.json")
			if _, err := n.Reserve(claim("u2"), device); !errors.Is(err, agent.ErrHeld) {
				t.Errorf("another claim got the device: %v", err)
			}
			n.apply(strings.Replace(dra, "3g.40gb@0, 3g.40gb@4", "7g.80gb@0", 1))
			n.uuid(0, "3g.40gb@0")
			if _, err := n.Reserve(claim("u1"), device); err != nil {
				t.Errorf("the same claim again: %v", err)
			}
			n.converge()
			n.problem(agent.ReasonBlocked, "3g.40gb@0 in use by claim ns/u1")
			if err := n.Release("u1"); err != nil {
				t.Fatal(err)
			}
			n.converge()
			n.uuid(0, "7g.80gb@0")
			n.noProblems()
		})
	}
}

// P5: a GPU that cannot follow a new entry is offered as before, not as if nobody managed it.
func TestImpossibleEntryKeepsWhatWasInForce(t *testing.T) {
	shared := layout("{timeSlicing: {replicas: 4, rename: true}}")
	serve := func(text, api string) string {
		return strings.Replace(text, "layout: it", "layout: it, serve: "+api, 1)
	}
	for _, tc := range []struct {
		name, spec, before, then, offers string
	}{
		{"shares stay shares", "1xl40s", shared, serve(layout("{timeSlicing: {replicas: 2}}"), "dra"), "gpu.shared=4"},
		{"a cut that does not fit changes nothing", "1xh100-sxm5-80gb", layout("{mig: {fill: 3g}}"), layout("{mig: {instances: {7g.80gb: 2}}}"), "mig-3g.40gb=2"},
		{"what shall not be offered is not", "1xl40s", "", serve(layout("{mig: {fill: 1g}}"), "none"), ""},
		{"what DRA shall serve is not given to the device plugin", "1xl40s", "", serve(layout("{mig: {fill: 1g}}"), "dra"), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := newNode(t, tc.spec)
			if tc.before != "" {
				n.apply(tc.before)
			}
			n.apply(tc.then)
			n.offers(tc.offers)
			if v, _ := n.View(); len(v.Problems) != 1 {
				t.Errorf("problems %v", v.Problems)
			}
		})
	}
}

// P2, P6: a device that is held in a way that is no longer offered keeps its place for CDI: its containers may start again.
func TestHeldDeviceKeepsItsEntryForCDI(t *testing.T) {
	n := newNode(t, "2xl40s")
	n.apply(layout("{}"))
	id := n.uuid(0, "")
	n.kubelet.set(nil, holder("gpu", id, "p"))
	for _, config := range []string{
		strings.Replace(layout("{}"), "layout: it", "layout: it, serve: dra", 1),
		strings.Replace(layout("{}"), "layout: it", "layout: it, serve: none", 1),
		layout("{timeSlicing: {replicas: 2, rename: true}}"),
	} {
		n.apply(config)
		view, _ := n.View()
		found := false
		for _, d := range view.Devices {
			found = found || d.UUID == id && d.API == agent.DevicePlugin && d.Held
		}
		if !found {
			t.Errorf("after %s the held device has no entry", config)
		}
		if _, err := n.Reserve(claim("c"), []string{"gpu-0"}); err == nil {
			t.Error("a held device was given to a claim")
		}
	}
}

// P6, P8: names that were offered here are remembered over restarts and config edits; what others allocate under other names,
// or under names that we never offered, is theirs.
func TestOnlyNamesThatWeOfferedAreOurs(t *testing.T) {
	n := newNode(t, "1xl40s")
	n.apply(layout("{timeSlicing: {replicas: 2, rename: acme.com/share}}"))
	id := n.uuid(0, "") + "::1"
	mine := kubelet.Allocation{Resource: "acme.com/share", ID: id, Holder: "team-a/p/main"}
	n.kubelet.set(nil, mine,
		kubelet.Allocation{Resource: "acme.com/share-amd", ID: "GPU-amd-0", Holder: "x"},
		kubelet.Allocation{Resource: "nvidia.com/gpu", ID: "GPU-of-another-plugin", Holder: "y"})
	n.apply(strings.Replace(layout("{}"), "layout: it", "layout: it, serve: none", 1))
	view, _ := n.View()
	if len(view.Lists) != 1 || len(view.Lists["acme.com/share"]) != 1 || view.Lists["acme.com/share"][0].ID != id {
		t.Errorf("lists %v, want the one share that is held", view.Lists)
	}
	n.start()
	n.converge()
	if view, _ := n.View(); len(view.Lists) != 1 || len(view.Lists["acme.com/share"]) != 1 {
		t.Errorf("after a restart: %v", view.Lists)
	}
}

// P2: the driver does not say which instance a process uses: it may be any of them.
func TestProcessWithoutInstanceHoldsAll(t *testing.T) {
	n := newNode(t, "1xh100-sxm5-80gb")
	n.apply(layout("{mig: {slots: [3g.40gb@0]}}"))
	if err := n.machine.StartProcess(0, sim.Process{PID: 4343, GI: devices.NoInstance, CI: devices.NoInstance}); err != nil {
		t.Fatal(err)
	}
	n.apply(layout("{mig: {slots: [7g.80gb@0]}}"))
	n.problem(agent.ReasonBlocked, "3g.40gb@0 in use by pid 4343")
}

// P11: a plan that failed and is then blocked or paused is not tried in a loop.
func TestNoLoopAfterAFailure(t *testing.T) {
	n := newNode(t, "1xh100-sxm5-80gb")
	n.apply(layout("{mig: {slots: [3g.40gb@0]}}"))
	if _, err := n.machine.Fail(sim.Fault{Call: "DestroyGI", Nth: 1, Code: devices.ErrUnknown}); err != nil {
		t.Fatal(err)
	}
	to := layout("{mig: {slots: [7g.80gb@0]}}")
	n.apply(to)
	n.problem(agent.ReasonApplyFailed, "destroy 3g.40gb@0")
	if err := n.SetConfig("c", []byte(strings.Replace(to, "nodes: [{", "nodes: [{paused: true, ", 1))); err != nil {
		t.Fatal(err)
	}
	var looks atomic.Int64
	n.kubelet.onRead = func() { looks.Add(1) }
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if err := n.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if got := looks.Load(); got > 40 {
		t.Errorf("%d looks in 3 s with a poll of 10 s", got)
	}
}

// A GPU that is lost before anything was known of it is said to be there.
func TestGPUThatWasLostAtStart(t *testing.T) {
	n := newNode(t, "2xl40s")
	if err := n.machine.Lose(1); err != nil {
		t.Fatal(err)
	}
	n.start()
	n.converge()
	n.offers("gpu=1")
	n.problem(agent.ReasonGPUFault, "1 GPUs that the driver counts do not say who they are")
	if err := n.machine.Restore(1); err != nil {
		t.Fatal(err)
	}
	n.converge()
	n.offers("gpu=2")
	n.noProblems()
}

// P5: a file that is empty, perhaps because somebody is writing it at this moment, is no config and changes nothing.
func TestEmptyConfigIsRefused(t *testing.T) {
	n := newNode(t, "1xh100-sxm5-80gb")
	n.apply(layout("{mig: {fill: 3g}}"))
	for _, text := range []string{"", "# soon\n", "---\n"} {
		if err := n.SetConfig("c", []byte(text)); err == nil {
			t.Errorf("%q was accepted", text)
		}
		n.converge()
		n.problem(agent.ReasonConfigInvalid, "is empty")
		n.offers("mig-3g.40gb=2")
	}
	n.apply(head) // this manages nothing, on purpose
	n.noProblems()
}

// P1: a GPU that shall leave DRA gives nothing to new claims while an old one holds a part of it, and goes when that is over.
func TestLeavingDRA(t *testing.T) {
	for _, to := range []string{"none", "device-plugin"} {
		n := newNode(t, "1xh100-sxm5-80gb")
		serve := func(api string) string {
			return strings.Replace(layout("{mig: {slots: [3g.40gb@0, 3g.40gb@4]}}"), "layout: it", "layout: it, serve: "+api, 1)
		}
		n.apply(serve("dra"))
		if _, err := n.Reserve(claim("u1"), []string{"gpu-0-mig-3g40gb-9-0"}); err != nil {
			t.Fatal(err)
		}
		n.apply(serve(to))
		if _, err := n.Reserve(claim("u2"), []string{"gpu-0-mig-3g40gb-9-4"}); !errors.Is(err, agent.ErrNotOffered) {
			t.Errorf("to %s: a new claim got the other half: %v", to, err)
		}
		if _, err := n.Reserve(claim("u1"), []string{"gpu-0-mig-3g40gb-9-0"}); err != nil {
			t.Errorf("to %s: the old claim again: %v", to, err)
		}
		n.offers("")
		if err := n.Release("u1"); err != nil {
			t.Fatal(err)
		}
		n.converge()
		n.offers(map[string]string{"none": "", "device-plugin": "mig-3g.40gb=2"}[to])
	}
}

// slowDisk is a state directory on a disk that hangs until the test lets it go.
type slowDisk struct {
	*state.Store
	writing, let chan struct{}
	err          error
}

func (d *slowDisk) SaveClaim(c state.Claim) error {
	close(d.writing)
	<-d.let
	if d.err != nil {
		return d.err
	}
	return d.Store.SaveClaim(c)
}

// P10, P11, P1: while the intent of a claim is on its way to the disk, others are answered, and see the device as held; an
// intent that does not arrive holds nothing.
func TestSlowDiskBlocksNobody(t *testing.T) {
	for _, fails := range []error{nil, errors.New("disk full")} {
		n := newNode(t, "2xl40s")
		store, err := state.Open(n.dir, n.machine.BootID())
		if err != nil {
			t.Fatal(err)
		}
		disk := &slowDisk{Store: store, writing: make(chan struct{}), let: make(chan struct{}), err: fails}
		n.machine.CloseClient("agent")
		hw := devices.New(n.machine.Open(sim.Admin("agent")), devices.Options{})
		if n.Agent, err = agent.New(hw, n.kubelet, disk, agent.Options{NodeName: "n1", APIs: n.apis}); err != nil {
			t.Fatal(err)
		}
		n.apply(head + "nodes: [{gpus: [{select: {index: 0}, layout: whole, serve: dra}]}]\n")
		answered := make(chan error, 1)
		go func() {
			_, err := n.Reserve(claim("u1"), []string{"gpu-0"})
			answered <- err
		}()
		<-disk.writing
		if _, err := n.Allocate("nvidia.com/gpu", [][]string{{n.uuid(1, "")}}); err != nil {
			t.Errorf("another device: %v", err)
		}
		if _, err := n.Reserve(claim("u2"), []string{"gpu-0"}); !errors.Is(err, agent.ErrHeld) {
			t.Errorf("the same device: %v", err)
		}
		close(disk.let)
		if err := <-answered; !errors.Is(err, fails) {
			t.Errorf("answer %v, want %v", err, fails)
		}
		if held := len(n.Claims()); (held == 1) != (fails == nil) {
			t.Errorf("%d claims hold after %v", held, fails)
		}
	}
}

// P5, P6: a GPU that cannot follow its entry is offered as it was, also by the next process.
func TestImpossibleEntryOverARestart(t *testing.T) {
	for _, tt := range []struct{ was, offers string }{
		{"{timeSlicing: {replicas: 4, rename: true}}", "gpu.shared=4"},
		{"{mig: {fill: 1g}, timeSlicing: {replicas: 2}}", "mig-1g.10gb=14"},
	} {
		n := newNode(t, "1xh100-sxm5-80gb")
		n.apply(layout(tt.was))
		n.apply(layout("{mig: {instances: {3g.40gb: 5}}}"))
		n.offers(tt.offers)
		n.start()
		n.converge()
		n.offers(tt.offers)
		n.problem(agent.ReasonImpossible, "3g.40gb")
	}
	n := newNode(t, "1xh100-sxm5-80gb")
	n.apply(strings.Replace(layout("{}"), "layout: it", "layout: it, serve: dra", 1))
	n.apply(layout("{mig: {instances: {3g.40gb: 5}}}"))
	n.start()
	n.converge()
	n.offers("")
}

// P11: a state directory that cannot be written is said, and what there is is offered.
func TestStateThatCannotBeKept(t *testing.T) {
	n := newNode(t, "1xh100-sxm5-80gb")
	blocked := filepath.Join(n.dir, "resources.json")
	if err := os.Mkdir(blocked, 0o700); err != nil { // a file cannot replace a directory
		t.Fatal(err)
	}
	n.apply(layout("{mig: {fill: 1g}}"))
	n.offers("mig-1g.10gb=7")
	n.problem(agent.ReasonStateNotKept, "resources.json")
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	n.converge()
	n.noProblems()
}
