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
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	cdilib "tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/specs-go"

	"gpuslice/internal/agent"
	"gpuslice/internal/dra"
	"gpuslice/internal/kubelet"
	"gpuslice/internal/state"
	"gpuslice/pkg/cdi"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
)

const (
	wholeConfig  = "apiVersion: gpuslice.dev/v1alpha1\nkind: SharingConfig\nnodes: [{gpus: [{layout: whole, serve: dra}]}]\n"
	slicedConfig = "apiVersion: gpuslice.dev/v1alpha1\nkind: SharingConfig\n" +
		"layouts: {it: {mig: {slots: [3g.40gb@4, 1g.10gb@0, 1g.10gb@1]}}}\nnodes: [{gpus: [{layout: it, serve: dra}]}]\n"
)

// idleKubelet has given out nothing through the other API.
type idleKubelet struct{}

func (idleKubelet) Read(context.Context) (kubelet.Record, error) { return kubelet.Record{}, nil }
func (idleKubelet) Held(string, string) ([]string, error)        { return nil, nil }

// specsFault makes the next writes of CDI specs fail.
type specsFault struct {
	dra.Specs
	on atomic.Bool
}

var errDiskFull = errors.New("no space left on device")

func (s *specsFault) WriteClaim(uid string, list []cdi.Device) error {
	if s.on.Load() {
		return errDiskFull
	}
	return s.Specs.WriteClaim(uid, list)
}

// node is a simulated node with the agent and its DRA driver as one process that can be ended and started.
type node struct {
	t       *testing.T
	machine *sim.Machine
	dir     string
	config  string
	client  *server
	fault   *specsFault
	agent   *agent.Agent
	driver  *dra.Driver
	stop    func()
}

func newNode(t *testing.T, spec, config string) *node {
	t.Helper()
	machine, err := sim.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(machine.Close)
	dir, err := os.MkdirTemp("", "dra") // short: a socket's path has 107 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	n := &node{t: t, machine: machine, dir: dir, config: config, client: newServer()}
	n.start()
	return n
}

// start is a process start: a new session, a new agent, the same directories.
func (n *node) start() {
	n.t.Helper()
	n.machine.CloseClient("agent")
	store, err := state.Open(filepath.Join(n.dir, "state"), n.machine.BootID())
	if err != nil {
		n.t.Fatal(err)
	}
	hw := devices.New(n.machine.Open(sim.Admin("agent")), devices.Options{})
	n.agent, err = agent.New(hw, idleKubelet{}, store, agent.Options{NodeName: "n1", APIs: []agent.API{agent.DRA}})
	if err != nil {
		n.t.Fatal(err)
	}
	if err := n.agent.SetConfig("config.yaml", []byte(n.config)); err != nil {
		n.t.Fatal(err)
	}
	files := cdi.NewFiles(filepath.Join(n.dir, "cdi"))
	n.fault = &specsFault{Specs: &cdi.Writer{
		Files: files, Nodes: cdi.Computed{}, Owner: "n1",
		Common: func() (specs.ContainerEdits, error) { return specs.ContainerEdits{}, nil },
	}}
	n.driver = dra.New(n.agent, n.fault, dra.Options{NodeName: "n1", KubeletDir: n.kubeletDir(), Client: n.client})
	n.stop = run(n.t, n.converge, n.driver.Run)
}

// converge is the agent's own loop, but that it finishes its pass before it ends.
func (n *node) converge(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := n.agent.Converge(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// sicken makes a GPU fail to answer until it is healed.
func (n *node) sicken(gpu int) (heal func()) {
	n.t.Helper()
	heal, err := n.machine.Fail(sim.Fault{Call: "UUID", GPUs: []int{gpu}})
	if err != nil {
		n.t.Fatal(err)
	}
	return heal
}

// run starts what lives as long as a process; stop ends it and waits. A test that ends stops it too.
func run(t *testing.T, loops ...func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(klog.NewContext(context.WithoutCancel(t.Context()), klog.Logger{}))
	group, ctx := errgroup.WithContext(ctx)
	for _, loop := range loops {
		group.Go(func() error { return loop(ctx) })
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}

func (n *node) kubeletDir() string { return filepath.Join(n.dir, "kubelet") }

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// published prints the devices in the API server, in the order in which the scheduler sees them; "!" marks a taint.
func (n *node) published() string {
	n.t.Helper()
	list, err := n.client.ResourceV1().ResourceSlices().List(n.t.Context(), metav1.ListOptions{})
	if err != nil {
		n.t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b resourceapi.ResourceSlice) int { return strings.Compare(a.Name, b.Name) })
	names := []string{}
	for _, s := range list.Items {
		for _, d := range s.Spec.Devices {
			name := d.Name
			if len(d.Taints) > 0 {
				name += "!"
			}
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

func (n *node) publishes(want string) {
	n.t.Helper()
	eventually(n.t, "published is "+want, func() bool { return n.published() == want })
}

// claimFor is a claim as the scheduler leaves it, with one request for each device; its UID is its name.
func claimFor(name string, devices ...string) *resourceapi.ResourceClaim {
	allocated := &resourceapi.AllocationResult{}
	for i, device := range devices {
		allocated.Devices.Results = append(allocated.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: fmt.Sprintf("r%d", i), Driver: dra.DriverName, Pool: "n1", Device: device,
		})
	}
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name, UID: types.UID(name)},
		Status:     resourceapi.ResourceClaimStatus{Allocation: allocated},
	}
}

// allocate stores a claim in the API server.
func (n *node) allocate(name string, devices ...string) *resourceapi.ResourceClaim {
	n.t.Helper()
	c := claimFor(name, devices...)
	n.store(c)
	return c
}

func (n *node) store(c *resourceapi.ResourceClaim) {
	n.t.Helper()
	if _, err := n.client.ResourceV1().ResourceClaims(c.Namespace).Create(n.t.Context(), c, metav1.CreateOptions{}); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) specPath(uid string) string {
	return filepath.Join(n.dir, "cdi", "k8s.gpu.nvidia.com-claim_"+uid+".json")
}

func (n *node) hasSpec(uid string) bool {
	_, err := os.Stat(n.specPath(uid))
	return err == nil
}

// injects lists the device nodes that a runtime gives for a CDI device, by the CDI library's own reading of the directory.
func (n *node) injects(id string) []string {
	n.t.Helper()
	cache, err := cdilib.NewCache(cdilib.WithSpecDirs(filepath.Join(n.dir, "cdi")), cdilib.WithAutoRefresh(false))
	if err != nil {
		n.t.Fatal(err)
	}
	d := cache.GetDevice(id)
	if d == nil {
		return nil
	}
	paths := []string{}
	for _, x := range d.ContainerEdits.DeviceNodes {
		paths = append(paths, x.Path)
	}
	return paths
}

// intents lists the UIDs of claims that survive a crash now.
func (n *node) intents() string {
	n.t.Helper()
	entries, err := os.ReadDir(filepath.Join(n.dir, "state", "claims"))
	if err != nil {
		n.t.Fatal(err)
	}
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}
