// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gpuslice/internal/agent"
	"gpuslice/internal/kubelet"
	"gpuslice/internal/state"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
)

const head = "apiVersion: gpuslice.dev/v1alpha1\nkind: SharingConfig\n"

// layout is a config that puts every GPU of every node under one layout.
func layout(text string) string {
	return head + "layouts: {it: " + text + "}\nnodes: [{gpus: [{layout: it}]}]\n"
}

// fakeKubelet is the kubelet's records, set by the test.
type fakeKubelet struct {
	mu     sync.Mutex
	record kubelet.Record
	err    error
	onRead func()              // called before each answer
	held   map[string][]string // by pod UID and container, "uid/main"
}

func (k *fakeKubelet) Held(podUID, container string) ([]string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.held[podUID+"/"+container], k.err
}

func (k *fakeKubelet) Read(context.Context) (kubelet.Record, error) {
	if k.onRead != nil {
		k.onRead()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.record
	r.Allocations = slices.Clone(r.Allocations)
	return r, k.err
}

func (k *fakeKubelet) set(err error, allocations ...kubelet.Allocation) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.record.Allocations, k.err = allocations, err
}

// node is a simulated node with an agent on it.
type node struct {
	*agent.Agent
	t       testing.TB
	machine *sim.Machine
	kubelet *fakeKubelet
	dir     string
	apis    []agent.API
	cgroups agent.Cgroups
	noHook  string
	cdi     *agent.CDI
	peek    time.Duration
}

func newNode(t testing.TB, spec string) *node {
	t.Helper()
	parse := sim.Parse
	if strings.Contains(spec, "\n") { // a machine file
		parse = func(text string) (*sim.Machine, error) { return sim.ParseYAML([]byte(text)) }
	}
	machine, err := parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(machine.Close)
	n := &node{t: t, machine: machine, kubelet: &fakeKubelet{}, dir: t.TempDir(), apis: []agent.API{agent.DevicePlugin, agent.DRA}}
	n.start()
	return n
}

// options are what a real node has beside the driver.
func (n *node) options() devices.Options {
	host := n.machine.Host()
	return devices.Options{
		Program: n.machine.Program(), Holders: n.machine.HoldersFor("agent"), Platforms: host,
		NUMANode: host.NUMANode, SystemMemory: host.SystemMemory, Bound: host.Bound, Load: host.Load,
	}
}

// start is a process start: the old process is dead, a new session, a new agent, the same state directory.
func (n *node) start() {
	n.t.Helper()
	n.startWith(n.options())
}

func (n *node) startWith(options devices.Options) {
	n.t.Helper()
	n.machine.CloseClient("agent")
	store, err := state.Open(n.dir, n.machine.BootID())
	if err != nil {
		n.t.Fatal(err)
	}
	hw := devices.New(n.machine.Open(sim.Admin("agent")), options)
	if n.Agent, err = agent.New(hw, n.kubelet, store, agent.Options{NodeName: "n1", APIs: n.apis, Cgroups: n.cgroups, NoHook: n.noHook, CDI: n.cdi, Peek: n.peek}); err != nil {
		n.t.Fatal(err)
	}
}

// apply gives a config that must load, and converges.
func (n *node) apply(config string) {
	n.t.Helper()
	if err := n.SetConfig("config.yaml", []byte(config)); err != nil {
		n.t.Fatal(err)
	}
	n.converge()
}

func (n *node) converge() {
	n.t.Helper()
	if err := n.Converge(n.t.Context()); err != nil {
		n.t.Fatal(err)
	}
}

// cut is the machine's own account of its GPUs, not the agent's.
func (n *node) cut(want string) {
	n.t.Helper()
	if got := strings.TrimSpace(n.machine.Dump()); got != strings.TrimSpace(want) {
		n.t.Errorf("machine is\n%s\nwant\n%s", got, want)
	}
}

// lists prints what the kubelet would be told: resource, number of healthy ids, number of unhealthy ones.
func (n *node) lists() string {
	n.t.Helper()
	view, _ := n.View()
	lines := []string{}
	for _, resource := range view.Resources() {
		healthy, unhealthy := 0, 0
		for _, l := range view.Lists[resource] {
			if l.Fault == "" {
				healthy++
			} else {
				unhealthy++
			}
		}
		line := fmt.Sprintf("%s=%d", strings.TrimPrefix(resource, "nvidia.com/"), healthy)
		if unhealthy > 0 {
			line += fmt.Sprintf("-%d", unhealthy)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, " ")
}

func (n *node) offers(want string) {
	n.t.Helper()
	if got := n.lists(); got != want {
		n.t.Errorf("offered: %s, want %s", got, want)
	}
}

// problem wants exactly one problem of the reason, with the text in it.
func (n *node) problem(reason agent.Reason, text string) {
	n.t.Helper()
	view, _ := n.View()
	for _, p := range view.Problems {
		if p.Reason == reason && strings.Contains(p.String(), text) {
			return
		}
	}
	n.t.Errorf("no problem %s with %q among %v", reason, text, view.Problems)
}

func (n *node) noProblems() {
	n.t.Helper()
	if view, _ := n.View(); len(view.Problems) > 0 {
		n.t.Errorf("problems: %v", view.Problems)
	}
}

// uuid finds the UUID of a slot such as "gpu-0 3g.40gb@4", by the machine's account.
func (n *node) uuid(gpu int, slot string) string {
	n.t.Helper()
	for _, g := range n.machine.GPUs() {
		if g.Number != gpu {
			continue
		}
		if slot == "" {
			return g.UUID
		}
		for _, i := range g.Instances {
			if i.Slot == slot {
				return i.UUID
			}
		}
	}
	n.t.Fatalf("gpu-%d has no %s", gpu, slot)
	return ""
}

// hold makes the kubelet's record say that pods hold ids.
func holder(resource, id, pod string) kubelet.Allocation {
	return kubelet.Allocation{Resource: "nvidia.com/" + resource, ID: id, Holder: "team-a/" + pod + "/main"}
}

// destroys lists the destroy attempts on a slot in the machine's log.
func (n *node) destroys(slot string) int {
	count := 0
	for _, a := range n.machine.Log() {
		if a.Slot == slot && (a.Call == "DestroyGI" || a.Call == "DestroyCI") {
			count++
		}
	}
	return count
}
