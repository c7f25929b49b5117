// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package dra_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	drahealth "k8s.io/kubelet/pkg/apis/dra-health/v1"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"

	"gpuslice/internal/agent"
	"gpuslice/internal/dra"
	"gpuslice/internal/state"
	"gpuslice/pkg/cdi"
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

func (n *node) allocateWith(name, device, parameters string) *resourceapi.ResourceClaim {
	n.t.Helper()
	c := n.allocate(name+"-0", device) // for its shape
	c = c.DeepCopy()
	c.Name, c.UID = name, "uid-of-"+c.UID
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
	monitor := n.allocate("shape", "gpu-0").DeepCopy()
	monitor.Name, monitor.UID = "monitor", "monitor"
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

// A kubelet that restarts has deleted the slices of its node; they are back long before the library's own 30 s.
func TestKubeletRestart(t *testing.T) {
	t.Parallel()
	n := newNode(t, "1xh100-sxm5-80gb", wholeConfig)
	k := register(t, n.kubeletDir())
	n.publishes("gpu-0")
	n.deleteSlices()
	started := time.Now()
	k.notify()
	n.publishes("gpu-0")
	if took := time.Since(started); took > 10*time.Second {
		t.Errorf("slices came back after %s", took)
	}
}

// A directory that is wiped costs no restart of the process.
func TestWipedRegistry(t *testing.T) {
	t.Parallel()
	n := newNode(t, "1xh100-sxm5-80gb", wholeConfig)
	register(t, n.kubeletDir())
	n.publishes("gpu-0")
	if err := os.Remove(filepath.Join(n.kubeletDir(), "plugins_registry", "gpu.nvidia.com-reg.sock")); err != nil {
		t.Fatal(err)
	}
	k := register(t, n.kubeletDir())
	k.prepare(n.allocate("c", "gpu-0"))
}

// Health goes to the kubelet at once, with the reason; every stream has its own.
func TestHealthStream(t *testing.T) {
	t.Parallel()
	n := newNode(t, "2xh100-sxm5-80gb", wholeConfig)
	k := register(t, n.kubeletDir())
	n.publishes("gpu-0 gpu-1")
	watch := func() func(want string) {
		stream, err := k.health.NodeWatchResources(t.Context(), &drahealth.NodeWatchResourcesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return func(want string) {
			t.Helper()
			for got := ""; got != want; {
				r, err := stream.Recv()
				if err != nil {
					t.Fatalf("last was %q: %v", got, err)
				}
				got = ""
				for _, d := range r.Devices {
					got += fmt.Sprintf("%s/%s=%s message=%v ", d.Device.PoolName, d.Device.DeviceName, d.Health, d.Message != "")
				}
			}
		}
	}
	one, two := watch(), watch()
	well := "n1/gpu-0=HEALTHY message=false n1/gpu-1=HEALTHY message=false "
	one(well)
	two(well)
	heal := n.sicken(1)
	sick := "n1/gpu-0=HEALTHY message=false n1/gpu-1=UNHEALTHY message=true "
	one(sick)
	two(sick)
	heal()
	one(well)
	two(well)
}

// On a cluster that drops taints the device that is not well leaves the slice, unless a claim holds it.
func TestClusterThatDropsTaints(t *testing.T) {
	t.Parallel()
	n := newNode(t, "2xh100-sxm5-80gb", wholeConfig)
	n.client.taintless.Store(true)
	k := register(t, n.kubeletDir())
	n.publishes("gpu-0 gpu-1")
	k.prepare(n.allocate("holder", "gpu-1"))
	healFree, healHeld := n.sicken(0), n.sicken(1)
	n.publishes("gpu-1")
	healFree()
	healHeld()
	n.publishes("gpu-0 gpu-1")
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

// blindAgent has verified nothing yet; its Reserve waits until it is let go.
type blindAgent struct {
	let      chan struct{}
	reserved chan struct{}
	released []string
}

func (b *blindAgent) View() (*agent.View, <-chan struct{}) { return nil, nil }

func (b *blindAgent) Reserve(state.Claim, []string) ([]agent.Device, error) {
	close(b.reserved)
	<-b.let
	return []agent.Device{whole(h100())}, nil
}

func (b *blindAgent) Release(uid string) error {
	b.released = append(b.released, uid)
	return nil
}

func (b *blindAgent) Claims() map[string]state.Claim { return nil }

// noSpecs writes nothing.
type noSpecs struct{}

func (noSpecs) Resolve(t cdi.Target) (cdi.Device, error) { return cdi.Device{Names: t.Names}, nil }
func (noSpecs) WriteClaim(string, []cdi.Device) error    { return nil }
func (noSpecs) RemoveClaim(string) error                 { return nil }
func (noSpecs) Claims() ([]string, error)                { return nil, nil }

// P6: before the first view the slices of the process before stay, and letting go needs no hardware. At the end calls in
// flight are answered first.
func TestBeforeTheFirstViewAndAtTheEnd(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "dra")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	n := &node{t: t, dir: dir, client: newServer()}
	name := "n1"
	before := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "before"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: dra.DriverName, NodeName: &name, Pool: resourceapi.ResourcePool{Name: name, ResourceSliceCount: 1},
		Devices: []resourceapi.Device{{Name: "gpu-0"}},
	}}
	if _, err := n.client.ResourceV1().ResourceSlices().Create(t.Context(), before, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	blind := &blindAgent{let: make(chan struct{}), reserved: make(chan struct{})}
	stop := run(t, dra.New(blind, noSpecs{}, dra.Options{NodeName: name, KubeletDir: n.kubeletDir(), Client: n.client}).Run)
	k := register(t, n.kubeletDir())
	k.unprepare("old")
	if !slices.Equal(blind.released, []string{"old"}) {
		t.Errorf("released %v", blind.released)
	}
	c := n.allocate("c", "gpu-0")
	answered := make(chan string, 1)
	go func() {
		answer, err := k.ask(c)
		answered <- fmt.Sprintf("%d devices, %q, %v", len(answer.GetDevices()), answer.GetError(), err)
	}()
	<-blind.reserved
	if got := n.published(); got != "gpu-0" {
		t.Errorf("published is %q: the slices of the process before were touched", got)
	}
	ended := make(chan struct{})
	go func() { stop(); close(ended) }()
	select {
	case <-ended:
		t.Error("ended while a call was in flight")
	case got := <-answered:
		t.Errorf("answered before it was let go: %s", got)
	case <-time.After(200 * time.Millisecond):
	}
	close(blind.let)
	if got := <-answered; got != `1 devices, "", <nil>` {
		t.Errorf("the call in flight was answered with %s", got)
	}
	<-ended
}

// Without an API server the driver registers, lets go of claims and ends when it is told to.
func TestAPIServerIsAway(t *testing.T) {
	t.Parallel()
	n := newNode(t, "1xh100-sxm5-80gb", wholeConfig)
	register(t, n.kubeletDir())
	n.publishes("gpu-0")
	n.stop()
	n.client.away.Store(true)
	n.start()
	k := register(t, n.kubeletDir())
	eventually(t, "verified", func() bool { v, _ := n.agent.View(); return v != nil })
	k.unprepare("any")
	started := time.Now()
	n.stop()
	if took := time.Since(started); took > 5*time.Second {
		t.Errorf("it took %s to end", took)
	}
}

// A server that ends ends the driver, with the cause; what a retry cures does not.
func TestErrorsInTheBackground(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "dra")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	d := dra.New(&blindAgent{}, noSpecs{}, dra.Options{NodeName: "n1", KubeletDir: dir, Client: newServer()})
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { ended <- d.Run(ctx) }()
	d.HandleError(ctx, fmt.Errorf("the API server is away: %w", kubeletplugin.ErrRecoverable), "publish")
	select {
	case err := <-ended:
		t.Fatalf("ended by an error that a retry cures: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	broken := errors.New("listener broke")
	d.HandleError(ctx, broken, "DRA gRPC server failed")
	if err := <-ended; !errors.Is(err, broken) {
		t.Errorf("ended with %v", err)
	}
}
