// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package dra_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	drahealth "k8s.io/kubelet/pkg/apis/dra-health/v1"
)

// A kubelet that restarts has deleted the slices of its node; they are back long before the library's own 30 s.
func TestKubeletRestart(t *testing.T) {
	t.Parallel()
	n := newNode(t, "1xh100-sxm5-80gb", wholeConfig)
	k := register(t, n.kubeletDir())
	registered := time.Now()
	n.publishes("gpu-0")
	eventually(t, "what follows the first registration is over", func() bool { return time.Since(registered) > 4*time.Second })
	n.deleteSlices()
	started := time.Now()
	k.notify()
	n.publishes("gpu-0")
	if took := time.Since(started); took > 10*time.Second {
		t.Errorf("slices came back after %s", took)
	}
}

// P6: a process that starts while the driver does not answer knows of no GPU, which is no reason to take away what stands.
func TestStartWithoutADriver(t *testing.T) {
	t.Parallel()
	n := newNode(t, "2xh100-sxm5-80gb", wholeConfig)
	n.publishes("gpu-0 gpu-1")
	n.stop()
	n.machine.CloseClient("agent")
	if err := n.machine.UnloadDriver(); err != nil {
		t.Fatal(err)
	}
	n.start()
	eventually(t, "the first publications, if any, are over", func() bool {
		view, _ := n.agent.View()
		return view != nil && view.Generation >= 80 // a pass takes 50 ms, and publications are repeated after 3 s
	})
	if got := n.published(); got != "gpu-0 gpu-1" {
		t.Errorf("without a driver %q is published", got)
	}
	n.machine.LoadDriver("")
	eventually(t, "the GPUs are seen", func() bool {
		view, _ := n.agent.View()
		return !view.Unseen
	})
	defer n.sicken(1)()
	n.publishes("gpu-0 gpu-1!")
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
	changed := time.Now()
	heal := n.sicken(1)
	sick := "n1/gpu-0=HEALTHY message=false n1/gpu-1=UNHEALTHY message=true "
	one(sick)
	two(sick)
	heal()
	one(well)
	two(well)
	if took := time.Since(changed); took > 5*time.Second {
		t.Errorf("two changes took %s to be told", took)
	}
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
