// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package dra_test

import (
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// P6: a spec that cannot be written takes back an intent that is new, and only that.
func TestSpecThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	n := newNode(t, "2xh100-sxm5-80gb", wholeConfig)
	k := register(t, n.kubeletDir())
	n.publishes("gpu-0 gpu-1")
	running := n.allocate("running", "gpu-0")
	k.prepare(running)
	n.fault.on.Store(true)
	k.refused(running, "no space left on device")
	k.refused(n.allocate("fresh", "gpu-1"), "claim team-a/fresh: no space left on device")
	if n.intents() != "running.json" || !n.hasSpec("running") {
		t.Errorf("intents %q, running has its spec: %v", n.intents(), n.hasSpec("running"))
	}
	n.fault.on.Store(false)
	k.prepare(n.allocate("next", "gpu-1"))
}

// P6: whatever a crash leaves, the next start brings specs and intents together, and keeps its hands off the rest.
func TestWhatACrashLeaves(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		crash     func(n *node) error
		kept      bool // the claim's spec is there after the start
		prepared  bool // the claim holds its device
		untouched string
	}{
		{"before the spec was written", func(n *node) error { return os.Remove(n.specPath("c")) }, true, true, ""},
		{"after the intent was taken away", func(n *node) error { return os.Remove(n.intentPath("c")) }, false, false, ""},
		{"nothing in between", func(*node) error { return nil }, true, true, ""},
		{"an intent that cannot be read: its container may run", func(n *node) error { return os.WriteFile(n.intentPath("c"), []byte("{"), 0o600) }, true, false, ""},
		{"another driver's spec", func(n *node) error {
			return os.WriteFile(n.specPath("theirs"), []byte(`{"cdiVersion":"0.5.0","kind":"k8s.gpu.nvidia.com/claim","devices":[{"name":"theirs-gpu-0","containerEdits":{"env":["A=B"]}}]}`), 0o600)
		}, true, true, "theirs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, "1xh100-sxm5-80gb", wholeConfig)
			k := register(t, n.kubeletDir())
			n.publishes("gpu-0")
			k.prepare(n.allocate("c", "gpu-0"))
			n.stop()
			if err := c.crash(n); err != nil {
				t.Fatal(err)
			}
			n.startSettled("gpu-0")
			if n.hasSpec("c") != c.kept {
				t.Errorf("spec is there: %v, want %v", n.hasSpec("c"), c.kept)
			}
			if _, held := n.agent.Claims()["c"]; held != c.prepared {
				t.Errorf("claim is held: %v, want %v", held, c.prepared)
			}
			if c.untouched != "" && !n.hasSpec(c.untouched) {
				t.Error("the spec of another driver was removed")
			}
			n.stop()
			n.startSettled("gpu-0") // and a second start changes nothing more
			if n.hasSpec("c") != c.kept {
				t.Errorf("after a second start the spec is there: %v, want %v", n.hasSpec("c"), c.kept)
			}
			register(t, n.kubeletDir()).unprepare("c")
			if n.hasSpec("c") || n.intents() != "" {
				t.Errorf("left over: spec %v, intents %q", n.hasSpec("c"), n.intents())
			}
		})
	}
}

// startSettled waits until the new process has published, which it does after it has settled what the old one left.
func (n *node) startSettled(want string) {
	n.t.Helper()
	n.deleteSlices()
	n.start()
	n.publishes(want)
}

// deleteSlices is what a kubelet does when it starts.
func (n *node) deleteSlices() {
	n.t.Helper()
	list, err := n.client.ResourceV1().ResourceSlices().List(n.t.Context(), metav1.ListOptions{})
	if err != nil {
		n.t.Fatal(err)
	}
	for _, s := range list.Items {
		if err := n.client.ResourceV1().ResourceSlices().Delete(n.t.Context(), s.Name, metav1.DeleteOptions{}); err != nil {
			n.t.Fatal(err)
		}
	}
}

func (n *node) intentPath(uid string) string {
	return filepath.Join(n.dir, "state", "claims", uid+".json")
}

// P1: a name stays bound to its GPU while an intent names it, even when the driver gives the minor number to another.
func TestMinorNumberMovesToAnotherGPU(t *testing.T) {
	t.Parallel()
	n := newNode(t, "2xh100-sxm5-80gb", wholeConfig)
	k := register(t, n.kubeletDir())
	n.publishes("gpu-0 gpu-1")
	holder := n.allocate("holder", "gpu-0")
	k.prepare(holder)
	n.stop()
	if err := n.machine.RemoveGPU(0); err != nil {
		t.Fatal(err)
	}
	if _, err := n.machine.AddGPU("h100-sxm5-80gb", ""); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(n.specPath("holder")); err != nil {
		t.Fatal(err)
	}
	n.startSettled("gpu-1 gpu-0") // the new one is last on the bus
	k = register(t, n.kubeletDir())
	k.refused(holder, "device gpu-0 was GPU GPU-")
	if n.hasSpec("holder") {
		t.Error("the claim would get the new GPU")
	}
	k.unprepare("holder")
	k.prepare(n.allocate("next", "gpu-0"))
}
