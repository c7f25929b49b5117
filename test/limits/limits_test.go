// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package limits_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
	"gpuslice/test/kubelet/kubelettest"
)

// mustRun runs the hook that the spec names for a device.
func (n *node) mustRun(c *container, uuid string) {
	n.t.Helper()
	hooks := n.hooks(uuid)
	if len(hooks) != 1 || hooks[0].HookName != "createRuntime" {
		n.t.Fatalf("hooks of %s are %+v", uuid, hooks)
	}
	if text, err := n.run(hooks[0], c, 0); err != nil {
		n.t.Fatalf("hook: %v: %s", err, text)
	}
}

func (n *node) wantLimits(gpu int, want map[string]uint64) {
	n.t.Helper()
	if got := n.limits(gpu); !maps.Equal(got, want) {
		n.t.Errorf("limits in MiB are %v, want %v", got, want)
	}
}

// P4, P6: a container is held to its shares before its process goes on, two of one GPU add up; what somebody changes is put
// back, by the next agent too; what a container was promised outlives an edit of replicas; and the limit goes with the container.
func TestContainersAreHeldToTheirShares(t *testing.T) {
	n := newNode(t, "615.28.01", "cgroup2")
	n.configure(quarters)
	n.start()
	n.until("8 shares", func() bool { return n.Healthy(shared) == 8 })
	gpus := n.driver.Machine().GPUs()
	first, second := gpus[0].UUID, gpus[1].UUID
	if got := n.status().MemoryLimit; got != "none" {
		t.Errorf("before any container runs, the node says %q", got)
	}
	if _, text := n.spec(); strings.Contains(text, "apply-cuda-memory-limits") {
		t.Error("a pod could choose its own limit: the toolkit's hook is in the spec")
	}
	for _, ids := range [][]string{{first + "::0", first + "::1"}, {first + "::2", second + "::0"}} {
		if _, err := n.Allocate(shared, ids...); err != nil {
			t.Fatal(err)
		}
	}
	n.Record(
		kubelettest.Held{PodUID: "a", Container: "main", Resource: shared, IDs: []string{first + "::0", first + "::1"}},
		kubelettest.Held{PodUID: "b", Container: "main", Resource: shared, IDs: []string{first + "::2", second + "::0"}},
		kubelettest.Held{PodUID: "c", Container: "main", Resource: shared, IDs: []string{second + "::1"}},
	)

	a, b := n.container("a"), n.container("b")
	n.mustRun(a, first)
	n.wantLimits(0, map[string]uint64{a.id: 23000}) // two shares, when the hook has returned
	n.mustRun(b, first)
	n.mustRun(b, second)
	n.wantLimits(0, map[string]uint64{a.id: 23000, b.id: 11500})
	n.wantLimits(1, map[string]uint64{b.id: 11500})
	n.until("word of it", func() bool { return n.status().MemoryLimit == "enforced" })

	machine := n.driver.Machine()
	for _, hard := range []uint64{1 << 30, devices.NoMemoryLimit} {
		if err := machine.SetMemoryLimit(0, a.cgroup, hard); err != nil {
			t.Fatal(err)
		}
		n.until("the limit to be back", func() bool { return n.limits(0)[a.id] == 23000 })
	}
	n.kill()
	if err := machine.SetMemoryLimit(0, a.cgroup, devices.NoMemoryLimit); err != nil {
		t.Fatal(err)
	}
	n.start()
	n.until("the limit to be back after a restart", func() bool { return n.limits(0)[a.id] == 23000 })
	n.until("word of it after a restart", func() bool { return n.status().MemoryLimit == "enforced" })

	n.configure("{replicas: 2, rename: true, memory: share}")
	n.until("4 shares", func() bool { return n.Healthy(shared) == 4 })
	c := n.container("c")
	n.mustRun(c, second)
	n.wantLimits(0, map[string]uint64{a.id: 23000, b.id: 11500})
	n.wantLimits(1, map[string]uint64{b.id: 11500, c.id: 23000})

	for _, x := range []*container{a, b, c} {
		n.end(x)
	}
	n.until("an empty state", func() bool { return len(n.kept()) == 0 })
	n.wantLimits(0, map[string]uint64{})
	n.wantLimits(1, map[string]uint64{})
}

// A container whose limit cannot be set does not start, and the runtime says why in one line.
func TestStartFails(t *testing.T) {
	n := newNode(t, "615.28.01", "cgroup2")
	n.configure(quarters)
	n.start()
	n.until("8 shares", func() bool { return n.Healthy(shared) == 8 })
	uuid := n.driver.Machine().GPUs()[0].UUID
	c := n.container("a")
	hook := n.hooks(uuid)[0]
	fails := func(why string, uid uint32, text ...string) {
		t.Helper()
		start := time.Now()
		said, err := n.run(hook, c, uid)
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%s: it took %v", why, took)
		}
		if err == nil || strings.Count(said, "\n") != 1 || !strings.HasPrefix(said, "gpuslice-hook: ") {
			t.Errorf("%s: %v: %q", why, err, said)
		}
		for _, want := range text {
			if !strings.Contains(said, want) {
				t.Errorf("%s: %q is not in %q", why, want, said)
			}
		}
	}
	fails("the kubelet gave it nothing", 0, uuid, "container main of pod a", "not held")
	n.Record(kubelettest.Held{PodUID: "a", Container: "main", Resource: shared, IDs: []string{uuid + "::3"}})
	release, err := n.driver.Machine().Fail(sim.Fault{Call: "SetMemoryLimits", Code: devices.ErrNoPermission})
	if err != nil {
		t.Fatal(err)
	}
	fails("the driver refuses", 0, "NO_PERMISSION")
	release()
	if len(n.kept()) != 0 {
		t.Errorf("%v is kept of a start that failed", n.kept())
	}
	socket := filepath.Join(n.Dir, "plugins/gpu.nvidia.com/gpuslice.sock")
	for _, dir := range []string{n.Dir, filepath.Dir(filepath.Dir(socket)), filepath.Dir(socket)} {
		if err := os.Chmod(dir, 0o755); err != nil { // so that the agent itself has to refuse
			t.Fatal(err)
		}
	}
	if err := os.Chmod(socket, 0o666); err != nil {
		t.Fatal(err)
	}
	fails("a user asks", 65534, "uid 65534")
	n.wantLimits(0, map[string]uint64{})
	n.kill()
	fails("the agent is dead", 0, "the agent of this node does not answer", socket)
	n.start()
	n.mustRun(c, uuid) // while it starts
	n.wantLimits(0, map[string]uint64{c.id: 11500})
}

// P7: without a cgroup v2 hierarchy, or with a driver that has no limits, shares work without a hook, and the node says so.
func TestWithoutSupport(t *testing.T) {
	for _, tc := range []struct{ name, version, hierarchy, says string }{
		{"the folder of a host with version 1", "615.28.01", "tmpfs", "is not a cgroup v2 hierarchy"},
		{"a driver from before", "595.45.04", "cgroup2", "older than 615"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := newNode(t, tc.version, tc.hierarchy)
			n.configure(quarters)
			n.start()
			n.until("8 shares", func() bool { return n.Healthy(shared) == 8 })
			uuid := n.driver.Machine().GPUs()[0].UUID
			if _, err := n.Allocate(shared, uuid+"::0"); err != nil {
				t.Error(err)
			}
			if hooks := n.hooks(uuid); len(hooks) > 0 {
				t.Errorf("containers would not start: hooks %+v", hooks)
			}
			if got := n.status().MemoryLimit; got != "none" {
				t.Errorf("the node says %q", got)
			}
			said := false
			for _, p := range n.status().Problems {
				said = said || p.Reason == "MemoryNotLimited" && strings.Contains(p.Message, tc.says)
			}
			if !said {
				t.Errorf("%q is not said: %+v", tc.says, n.status().Problems)
			}
			n.configure("{replicas: 4, rename: true}")
			n.until("silence, when nobody asks for limits", func() bool { s := n.status(); return s.MemoryLimit == "" && len(s.Problems) == 0 })
		})
	}
}
