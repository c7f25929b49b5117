// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuslice/internal/agent"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
)

// folders stand for cgroups: process 7 is in the folder "7".
type folders struct {
	root      string
	version   error
	elsewhere map[int]string // folders that are not called like their process
}

func (f *folders) Unified() error { return f.version }

func (f *folders) Of(pid int) (string, error) {
	if pid == os.Getpid() {
		return f.root, nil
	}
	folder := filepath.Join(f.root, fmt.Sprint(pid))
	if pid == 1 {
		folder = f.root
	}
	if other, ok := f.elsewhere[pid]; ok {
		folder = filepath.Join(f.root, other)
	}
	if !f.Exists(folder) {
		return "", fmt.Errorf("pid %d is gone", pid)
	}
	return folder, nil
}

func (f *folders) Exists(folder string) bool {
	_, err := os.Stat(folder)
	return err == nil
}

func (f *folders) IsRoot(folder string) bool { return folder == f.root }

// limitable are two GPUs with 46000 MiB for processes each.
const limitable = "driver: {version: 615.28.01}\ngpus: [{model: l40s, count: 2, reservedMiB: 68}]\n"

const quarters = "{timeSlicing: {replicas: 4, memory: share}}"

// limited is a node on which containers can be found.
type limited struct {
	*node
	cgroups *folders
}

func newLimited(t *testing.T, machine string) *limited {
	t.Helper()
	n := &limited{node: newNode(t, machine), cgroups: &folders{root: t.TempDir()}}
	n.node.cgroups = n.cgroups
	n.kubelet.held = map[string][]string{}
	n.start()
	return n
}

// container makes a cgroup and says what the kubelet gave to container main of the pod.
func (n *limited) container(pid int, ids ...string) agent.Container {
	n.t.Helper()
	if err := os.Mkdir(filepath.Join(n.cgroups.root, fmt.Sprint(pid)), 0o755); err != nil {
		n.t.Fatal(err)
	}
	c := agent.Container{ID: fmt.Sprintf("c%d", pid), PID: pid, PodUID: fmt.Sprintf("u%d", pid), Name: "main"}
	n.kubelet.held[c.PodUID+"/main"] = ids
	return c
}

func (n *limited) end(pid int) {
	n.t.Helper()
	if err := os.Remove(filepath.Join(n.cgroups.root, fmt.Sprint(pid))); err != nil {
		n.t.Fatal(err)
	}
}

func (n *limited) limit(c agent.Container, uuids ...string) {
	n.t.Helper()
	if err := n.LimitMemory(n.t.Context(), c, uuids); err != nil {
		n.t.Fatal(err)
	}
}

// limits wants what the machine holds cgroups to on a GPU, in MiB by pid.
func (n *limited) limits(gpu int, want map[string]uint64) {
	n.t.Helper()
	list, err := n.machine.MemoryLimits(gpu)
	if err != nil {
		n.t.Fatal(err)
	}
	got := map[string]uint64{}
	for _, l := range list {
		got[filepath.Base(l.Cgroup)] = l.Hard >> 20
	}
	if !maps.Equal(got, want) {
		n.t.Errorf("GPU %d holds %v, want %v", gpu, got, want)
	}
}

func (n *limited) says(want agent.MemoryLimit) {
	n.t.Helper()
	if view, _ := n.View(); view.MemoryLimit != want {
		n.t.Errorf("the node says %q, want %q; problems %v", view.MemoryLimit, want, view.Problems)
	}
}

// share is what a device of the view is held to, in MiB.
func (n *limited) share(gpu int) uint64 {
	view, _ := n.View()
	for _, d := range view.Devices {
		if d.UUID == n.uuid(gpu, "") {
			return d.ShareMemory >> 20
		}
	}
	return 0
}

// Shares of a container on a GPU add up; enforced is said after a running container was read back, and by the next process too.
func TestLimitsAddUp(t *testing.T) {
	n := newLimited(t, limitable)
	n.apply(layout(quarters))
	n.says(agent.NoLimit)
	a, b := n.uuid(0, ""), n.uuid(1, "")
	n.limit(n.container(7, a+"::0", b+"::1", a+"::3"), a, b)
	n.limits(0, map[string]uint64{"7": 23000})
	n.limits(1, map[string]uint64{"7": 11500})
	n.limit(n.container(8, a+"::1"), a)
	n.limits(0, map[string]uint64{"7": 23000, "8": 11500})
	n.says(agent.NoLimit)
	n.converge()
	n.says(agent.Enforced)
	n.noProblems()
	n.start()
	n.converge()
	n.says(agent.Enforced)
	n.end(7)
	n.end(8)
	n.converge()
	n.says(agent.Enforced) // seen once in this boot is enough, or the label would follow every pod
	n.machine.Reboot()
	n.start()
	n.converge()
	n.says(agent.NoLimit)
	n.apply(layout("{timeSlicing: {replicas: 4}}"))
	n.says("")
	n.noProblems()
}

// P4, P6: what differs is put back, also what was changed while no agent ran; while the config says paused it is only told.
func TestLimitsArePutBack(t *testing.T) {
	n := newLimited(t, limitable)
	n.apply(layout(quarters))
	c := n.container(7, n.uuid(0, "")+"::0")
	n.limit(c, n.uuid(0, ""))
	n.converge()
	folder := filepath.Join(n.cgroups.root, "7")
	change := func(hard uint64) {
		t.Helper()
		if err := n.machine.SetMemoryLimit(0, folder, hard); err != nil {
			t.Fatal(err)
		}
	}
	for _, hard := range []uint64{1 << 20, devices.NoMemoryLimit} {
		change(hard)
		n.converge()
		n.limits(0, map[string]uint64{"7": 11500})
	}
	change(1 << 20)
	n.start()
	n.converge()
	n.limits(0, map[string]uint64{"7": 11500})
	change(1 << 20)
	n.apply(strings.Replace(layout(quarters), "gpus:", "paused: true, gpus:", 1))
	n.limits(0, map[string]uint64{"7": 1})
	n.problem(agent.ReasonMemoryLimitNotSet, "container c7")
	n.says(agent.NoLimit)
	n.apply(layout(quarters))
	n.limits(0, map[string]uint64{"7": 11500})
	n.says(agent.Enforced)

	release, err := n.machine.Fail(sim.Fault{Call: "SetMemoryLimits", Code: devices.ErrUnknown})
	if err != nil {
		t.Fatal(err)
	}
	change(1 << 20)
	n.converge()
	n.problem(agent.ReasonMemoryLimitNotSet, "UNKNOWN")
	n.says(agent.NoLimit)
	release()
	n.converge()
	n.says(agent.Enforced)
	n.noProblems()
	n.wantSets(0)
}

// wantSets wants no more calls than there were when nothing differs.
func (n *limited) wantSets(more int) {
	n.t.Helper()
	count := func() int {
		sets := 0
		for _, a := range n.machine.Log() {
			if a.Call == "SetMemoryLimits" {
				sets++
			}
		}
		return sets
	}
	before := count()
	n.converge()
	if got := count() - before; got != more {
		n.t.Errorf("%d calls of SetMemoryLimits, want %d", got, more)
	}
}

// Who runs keeps what it was promised through an edit, and the sum of all promises is told when it is more than there is.
func TestReplicasEditedUnderRunningShares(t *testing.T) {
	n := newLimited(t, limitable)
	n.apply(layout("{timeSlicing: {replicas: 2, memory: share}}"))
	id := n.uuid(0, "")
	n.limit(n.container(7, id+"::0"), id)
	n.limit(n.container(8, id+"::1"), id)
	n.apply(layout(quarters))
	n.limits(0, map[string]uint64{"7": 23000, "8": 23000})
	n.noProblems()
	n.limit(n.container(9, id+"::2"), id)
	n.converge()
	n.limits(0, map[string]uint64{"7": 23000, "8": 23000, "9": 11500})
	n.problem(agent.ReasonMemoryOvercommit, "3 running containers may take 57500 MiB, the GPU has 46000")
	n.says(agent.Enforced)
	n.end(7)
	n.converge()
	n.noProblems()
	n.apply(layout("{timeSlicing: {replicas: 4}}"))
	n.limits(0, map[string]uint64{"8": 23000, "9": 11500})
	n.limit(n.container(10, id+"::3"), id) // its spec is from before the edit, and nothing holds it any more
	n.limits(0, map[string]uint64{"8": 23000, "9": 11500})
}

// P7: what cannot hold shares leaves them as they are, is told, and needs no hook.
func TestMemoryNotLimited(t *testing.T) {
	for _, tc := range []struct {
		why, machine, layout string
		spoil                func(n *limited)
		says                 string
	}{
		{"a driver from before", strings.Replace(limitable, "615.28.01", "595.45.04", 1), quarters, nil, "the driver is older than 615"},
		{"a GPU that cannot", strings.Replace(limitable, "615.28.01", "615.28.01, memoryLimits: false", 1), quarters, nil, "NOT_SUPPORTED"},
		{"version 1 of cgroups", limitable, quarters, func(n *limited) { n.cgroups.version = errors.New("no hierarchy of version 2") }, "no hierarchy of version 2"},
		{"no hook", limitable, quarters, func(n *limited) { n.noHook = "there is no program" }, "there is no program"},
		{"no cgroups", limitable, quarters, func(n *limited) { n.node.cgroups = nil }, "cannot find the cgroups"},
		{"too little memory", strings.Replace(limitable, "68", "46067", 1), quarters, nil, "less than 1 MiB"},
		{
			"MIG mode", "driver: {version: 615.28.01}\ngpus: [{model: h100-sxm5-80gb}]\n",
			"{mig: {fill: 1g}, timeSlicing: {replicas: 2, memory: share}}", nil, "no limits in MIG mode",
		},
	} {
		t.Run(tc.why, func(t *testing.T) {
			n := newLimited(t, tc.machine)
			if tc.spoil != nil {
				tc.spoil(n)
				n.start()
			}
			n.apply(layout(tc.layout))
			n.problem(agent.ReasonMemoryNotLimited, tc.says)
			n.says(agent.NoLimit)
			view, _ := n.View()
			for _, p := range view.Problems {
				if !p.IsInformation() {
					t.Errorf("it is called a problem: %v", p)
				}
			}
			for _, d := range view.Devices {
				if d.ShareMemory != 0 {
					t.Errorf("%s is held to %d bytes", d.Name, d.ShareMemory)
				}
			}
			if len(view.Resources()) == 0 {
				t.Error("no share is offered")
			}
		})
	}
}

// One call that fails is no reason to let containers start without a limit; an answer that stays is.
func TestSupportIsNotForgotten(t *testing.T) {
	n := newLimited(t, limitable)
	n.apply(layout(quarters))
	fail := func(code devices.Code) func() {
		release, err := n.machine.Fail(sim.Fault{Call: "MemoryLimits", GPUs: []int{0}, Code: code})
		if err != nil {
			t.Fatal(err)
		}
		n.converge()
		return release
	}
	release := fail(devices.ErrUnknown)
	if got := n.share(0); got != 11500 {
		t.Errorf("a share is held to %d MiB", got)
	}
	release()
	release = fail(devices.ErrNotSupported)
	if a, b := n.share(0), n.share(1); a != 0 || b != 11500 {
		t.Errorf("shares are held to %d and %d MiB", a, b)
	}
	n.problem(agent.ReasonMemoryNotLimited, "gpu-0")
	release()
	n.converge()
	n.noProblems()
	if err := n.machine.Lose(0); err != nil {
		t.Fatal(err)
	}
	n.converge()
	if got := n.share(0); got != 11500 {
		t.Errorf("a share of a lost GPU is held to %d MiB", got)
	}
}

// A container is refused with the reason when it cannot be held to its shares.
func TestLimitRefused(t *testing.T) {
	n := newLimited(t, limitable)
	n.apply(layout(quarters))
	id, other := n.uuid(0, ""), n.uuid(1, "")
	c := n.container(7, id+"::0")
	for _, tc := range []struct {
		why   string
		c     agent.Container
		uuids []string
		says  string
		is    error
	}{
		{"a device that is not here", c, []string{"GPU-none"}, "GPU-none", agent.ErrNotOffered},
		{"a device that the kubelet gave to others", c, []string{other}, other, agent.ErrNotHeld},
		{"a container that the kubelet does not know", agent.Container{ID: "x", PID: 7, PodUID: "u7", Name: "other"}, []string{id}, "container other of pod u7", agent.ErrNotHeld},
		{"an ended process", agent.Container{ID: "x", PID: 8, PodUID: "u7", Name: "main"}, []string{id}, "pid 8 is gone", nil},
		{"everybody's cgroup", agent.Container{ID: "x", PID: 1, PodUID: "u7", Name: "main"}, []string{id}, "root cgroup", nil},
		{"an id that is no file name", agent.Container{ID: "../x", PID: 7, PodUID: "u7", Name: "main"}, []string{id}, "file name", nil},
	} {
		err := n.LimitMemory(t.Context(), tc.c, tc.uuids)
		if err == nil || !strings.Contains(err.Error(), tc.says) || tc.is != nil && !errors.Is(err, tc.is) {
			t.Errorf("%s: %v", tc.why, err)
		}
	}
	n.kubelet.set(errors.New("no checkpoint"))
	if err := n.LimitMemory(t.Context(), c, []string{id}); err == nil || !strings.Contains(err.Error(), "no checkpoint") {
		t.Errorf("a kubelet that does not answer: %v", err)
	}
	n.limits(0, map[string]uint64{})
	n.limits(1, map[string]uint64{})
}

// Who uses a bounded GPU without a limit is named, and the node does not say enforced: neither where a container is from before the
// layout, nor where the process is of no container. A process below a container's own cgroup is held with it.
func TestProcessWithoutALimit(t *testing.T) {
	n := newLimited(t, limitable)
	n.apply(layout(quarters))
	id := n.uuid(0, "")
	n.limit(n.container(7, id+"::0"), id)
	n.converge()
	n.says(agent.Enforced)
	use := func(pid int) {
		t.Helper()
		p := sim.Process{PID: pid, GI: devices.NoInstance, CI: devices.NoInstance}
		if err := n.machine.StartProcess(0, p); err != nil {
			t.Fatal(err)
		}
		n.converge()
	}
	use(7)
	if err := os.Mkdir(filepath.Join(n.cgroups.root, "7/inside"), 0o755); err != nil {
		t.Fatal(err)
	}
	n.cgroups.elsewhere = map[int]string{17: "7/inside"}
	use(17)
	use(99) // it has ended: it is in no cgroup any more
	n.says(agent.Enforced)
	n.noProblems()
	n.container(8) // from before, or somebody's own
	use(8)
	n.says(agent.NoLimit)
	n.problem(agent.ReasonMemoryNotLimited, "1 of the processes on the GPU have no limit, the first is pid 8")
	if err := n.machine.StopProcess(0, 8); err != nil {
		t.Fatal(err)
	}
	n.converge()
	n.says(agent.Enforced)
	n.noProblems()
}
