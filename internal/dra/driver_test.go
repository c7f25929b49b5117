// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package dra_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"

	"gpuslice/internal/dra"
)

// P1, P6: the life of a claim over the real sockets, with a restart in the middle.
func TestClaimLivesThroughARestart(t *testing.T) {
	t.Parallel()
	n := newNode(t, "2xh100-sxm5-80gb", wholeConfig)
	k := register(t, n.kubeletDir())
	n.publishes("gpu-0 gpu-1")
	eventually(t, "ready", n.driver.Ready)

	trainer := n.allocate("trainer", "gpu-0")
	want := []*drapb.Device{{RequestNames: []string{"r0"}, PoolName: "n1", DeviceName: "gpu-0", CdiDeviceIds: []string{"k8s.gpu.nvidia.com/claim=trainer-gpu-0"}}}
	first := k.prepare(trainer)
	if diff := cmp.Diff(fmt.Sprint(want), fmt.Sprint(first)); diff != "" {
		t.Fatal(diff)
	}
	if got := n.injects("k8s.gpu.nvidia.com/claim=trainer-gpu-0"); !slices.Equal(got, []string{"/dev/nvidia0"}) {
		t.Errorf("injects %v", got)
	}
	same := func(k *fakeKubelet) {
		t.Helper()
		if diff := cmp.Diff(fmt.Sprint(first), fmt.Sprint(k.prepare(trainer))); diff != "" {
			t.Error(diff)
		}
	}
	same(k)
	other := n.allocate("other", "gpu-0")
	k.refused(other, "held by another: claim team-a/trainer holds gpu-0")
	if n.hasSpec("other") || n.intents() != "trainer.json" {
		t.Errorf("the refused claim left a spec or an intent: %s", n.intents())
	}

	n.stop()
	before, err := os.ReadFile(n.specPath("trainer"))
	if err != nil {
		t.Fatal(err)
	}
	n.start()
	k = register(t, n.kubeletDir())
	eventually(t, "verified", func() bool { v, _ := n.agent.View(); return v != nil })
	if after, err := os.ReadFile(n.specPath("trainer")); err != nil || string(after) != string(before) {
		t.Errorf("the spec of a live claim changed over a restart: %s, %v", after, err)
	}
	same(k)
	k.refused(other, "held by another: claim team-a/trainer holds gpu-0")

	k.unprepare("trainer")
	if n.hasSpec("trainer") || n.intents() != "" {
		t.Errorf("left over: spec %v, intents %q", n.hasSpec("trainer"), n.intents())
	}
	k.unprepare("trainer")
	k.unprepare("never-seen")
	k.prepare(other)
}

// Two instances of one GPU are two devices; each container sees its own capability nodes and no others.
func TestInstancesOfOneGPU(t *testing.T) {
	t.Parallel()
	n := newNode(t, "1xh100-sxm5-80gb", slicedConfig)
	k := register(t, n.kubeletDir())
	n.publishes("gpu-0-mig-1g10gb-19-0 gpu-0-mig-1g10gb-19-1 gpu-0-mig-3g40gb-9-4")
	k.prepare(n.allocate("small", "gpu-0-mig-1g10gb-19-0"))
	got := k.prepare(n.allocate("both", "gpu-0-mig-1g10gb-19-1", "gpu-0-mig-3g40gb-9-4"))
	if len(got) != 2 || got[0].RequestNames[0] != "r0" || got[1].RequestNames[0] != "r1" {
		t.Fatalf("prepared %v", got)
	}
	seen := map[string]string{}
	for _, id := range []string{"small-gpu-0-mig-1g10gb-19-0", "both-gpu-0-mig-1g10gb-19-1", "both-gpu-0-mig-3g40gb-9-4"} {
		nodes := n.injects("k8s.gpu.nvidia.com/claim=" + id)
		if len(nodes) != 3 || nodes[0] != "/dev/nvidia0" {
			t.Fatalf("%s injects %v", id, nodes)
		}
		for _, cap := range nodes[1:] {
			if by := seen[cap]; by != "" {
				t.Errorf("%s and %s both inject %s", by, id, cap)
			}
			seen[cap] = id
		}
	}
	k.refused(n.allocate("late", "gpu-0-mig-3g40gb-9-4"), "held by another: claim team-a/both")
}

// P3: what is wrong with one claim is said of that claim, and leaves nothing behind.
func TestRefusals(t *testing.T) {
	t.Parallel()
	n := newNode(t, "2xh100-sxm5-80gb", wholeConfig)
	k := register(t, n.kubeletDir())
	n.publishes("gpu-0 gpu-1")
	k.refused(n.allocate("stranger", "gpu-7"), "claim team-a/stranger: device gpu-7: not offered; there are gpu-0, gpu-1")
	n.sicken(0)
	n.publishes("gpu-0! gpu-1")
	k.refused(n.allocate("unlucky", "gpu-0"), "claim team-a/unlucky: device gpu-0: unhealthy: ")
	bad := n.allocateWith("bad", "gpu-1", `{"apiVersion":"resource.nvidia.com/v1beta1","kind":"GpuConfig","sharings":{}}`)
	k.refused(bad, `unknown field "sharings"`)
	k.refused(n.allocateWith("mps", "gpu-1", `{"apiVersion":"resource.nvidia.com/v1beta1","kind":"GpuConfig","sharing":{"strategy":"MPS"}}`), "not supported yet")
	if n.intents() != "" {
		t.Errorf("intents of refused claims: %s", n.intents())
	}
	k.prepare(n.allocateWith("good", "gpu-1", `{"apiVersion":"resource.nvidia.com/v1beta1","kind":"GpuConfig"}`))
}

// allocateWith stores a claim with parameters for its device.
func (n *node) allocateWith(name, device, parameters string) *resourceapi.ResourceClaim {
	n.t.Helper()
	c := claimFor(name, device)
	c.Status.Allocation.Devices.Config = []resourceapi.DeviceAllocationConfiguration{{
		Source: resourceapi.AllocationConfigSourceClaim,
		DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
			Driver: dra.DriverName, Parameters: runtime.RawExtension{Raw: []byte(parameters)},
		}},
	}}
	n.store(c)
	return c
}

// A claim with admin access looks on: it neither keeps others out nor is kept out, and sees a GPU that is not well.
func TestAdminHoldsNothing(t *testing.T) {
	t.Parallel()
	n := newNode(t, "1xh100-sxm5-80gb", wholeConfig)
	k := register(t, n.kubeletDir())
	n.publishes("gpu-0")
	yes := true
	monitor := claimFor("monitor", "gpu-0")
	monitor.Status.Allocation.Devices.Results[0].AdminAccess = &yes
	n.store(monitor)
	k.prepare(monitor)
	k.prepare(n.allocate("trainer", "gpu-0"))
	k.prepare(monitor)
	if got := n.injects("k8s.gpu.nvidia.com/claim=monitor-gpu-0"); !slices.Equal(got, []string{"/dev/nvidia0"}) {
		t.Errorf("injects %v", got)
	}
	k.unprepare("monitor")
	k.refused(n.allocate("other", "gpu-0"), "claim team-a/trainer holds gpu-0")
}

// P2: a lost GPU that a claim holds stays published, with its taint; the claim gets the same answer and can let go.
func TestLostGPUWithAHolder(t *testing.T) {
	t.Parallel()
	n := newNode(t, "2xh100-sxm5-80gb", wholeConfig)
	k := register(t, n.kubeletDir())
	n.publishes("gpu-0 gpu-1")
	holder := n.allocate("holder", "gpu-0")
	first := fmt.Sprint(k.prepare(holder))
	if err := n.machine.Lose(0); err != nil {
		t.Fatal(err)
	}
	n.publishes("gpu-0! gpu-1")
	if again := fmt.Sprint(k.prepare(holder)); again != first {
		t.Errorf("first %s, then %s", first, again)
	}
	k.refused(n.allocate("other", "gpu-0"), "unhealthy: ")
	k.unprepare("holder")
	k.prepare(n.allocate("next", "gpu-1"))
}

// Claims of one pod batch come at once, and the kubelet may ask twice for the same.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	n := newNode(t, "8xh100-sxm5-80gb", wholeConfig)
	k := register(t, n.kubeletDir())
	n.publishes("gpu-0 gpu-1 gpu-2 gpu-3 gpu-4 gpu-5 gpu-6 gpu-7")
	won := make([]string, 8)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for i := range 8 {
		rivals := []*resourceapi.ResourceClaim{n.allocate(fmt.Sprintf("a%d", i), fmt.Sprintf("gpu-%d", i)), n.allocate(fmt.Sprintf("b%d", i), fmt.Sprintf("gpu-%d", i))}
		for _, c := range slices.Concat(rivals, rivals) {
			wg.Go(func() {
				answer, err := k.ask(c)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if answer.Error == "" && !strings.Contains(won[i], c.Name) {
					won[i] += c.Name
				}
			})
		}
	}
	wg.Wait()
	for i, by := range won {
		if len(by) != 2 {
			t.Errorf("gpu-%d was given to %q", i, by)
		} else if !n.hasSpec(by) {
			t.Errorf("gpu-%d was given to %s without a spec", i, by)
		}
	}
}
