// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package deviceplugin_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	cdilib "tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/specs-go"

	"gpuslice/internal/agent"
	"gpuslice/internal/deviceplugin"
	"gpuslice/internal/kubelet"
	"gpuslice/internal/state"
	"gpuslice/pkg/cdi"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
	fake "gpuslice/test/kubelet/kubelettest"
)

// limit is ten times the 30 s that a lost stream may take, soon ten times what a list may.
const (
	limit     = 300 * time.Second
	soonLimit = 20 * time.Second
)

const head = "apiVersion: gpuslice.dev/v1alpha1\nkind: SharingConfig\n"

func layout(text string) string {
	return head + "layouts: {it: " + text + "}\nnodes: [{gpus: [{layout: it}]}]\n"
}

// noRecord is a kubelet without records.
type noRecord struct{}

func (noRecord) Read(context.Context) (kubelet.Record, error) {
	return kubelet.Record{Absent: true}, nil
}

func (noRecord) Held(string, string) ([]string, error) { return nil, nil }

type rig struct {
	*fake.Kubelet
	t       testing.TB
	machine *sim.Machine
	agent   *agent.Agent
	cdiDir  string

	prepare func(kubeletDir string)
	cgroups agent.Cgroups
	options deviceplugin.Options
	nodes   nodes
}

// newRig runs agent and plugin against a kubelet.
func newRig(t testing.TB, spec, strategy string) *rig {
	t.Helper()
	return newRigWith(t, spec, strategy, func(string) {})
}

// newRigWith prepares the kubelet's directory first.
func newRigWith(t testing.TB, spec, strategy string, prepare func(dir string)) *rig {
	t.Helper()
	r := &rig{prepare: prepare, options: deviceplugin.Options{Strategy: strategy}}
	r.run(t, spec)
	return r
}

// run starts everything, until the test ends.
func (r *rig) run(t testing.TB, spec string) {
	t.Helper()
	machine, err := sim.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(machine.Close)
	r.Kubelet, r.t, r.machine, r.cdiDir = fake.Start(t), t, machine, t.TempDir()
	r.prepare(r.Dir)
	store, err := state.Open(t.TempDir(), "boot")
	if err != nil {
		t.Fatal(err)
	}
	hw := devices.New(machine.Open(sim.Admin("agent")), devices.Options{NUMANode: r.numaNode})
	r.agent, err = agent.New(hw, noRecord{}, store, agent.Options{
		NodeName: "n1", APIs: []agent.API{agent.DevicePlugin}, Poll: 100 * time.Millisecond, Cgroups: r.cgroups,
	})
	if err != nil {
		t.Fatal(err)
	}
	files := cdi.NewFiles(r.cdiDir)
	writer := &cdi.Writer{Files: files, Nodes: &r.nodes, Owner: "n1", Common: func() (specs.ContainerEdits, error) { return specs.ContainerEdits{}, nil }}
	r.options.KubeletDir = r.Dir
	plugin := deviceplugin.New(r.agent, writer, r.options)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 2)
	go func() { ended <- r.agent.Run(ctx) }()
	go func() { ended <- plugin.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, <-ended); err != nil {
			t.Error(err)
		}
	})
}

func (r *rig) numaNode(pci string) int {
	for _, g := range r.machine.GPUs() {
		if strings.HasSuffix(strings.ToLower(g.BusID), pci) {
			return g.NUMA
		}
	}
	return -1
}

func (r *rig) healthy(resource string, n int) {
	r.t.Helper()
	r.Wait(resource+" has its devices", limit, func() bool { return r.Healthy("nvidia.com/"+resource) == n })
}

func (r *rig) config(text string) {
	r.t.Helper()
	if err := r.agent.SetConfig("c", []byte(text)); err != nil {
		r.t.Fatal(err)
	}
}

func TestListsFollowTheConfig(t *testing.T) {
	r := newRig(t, "2xh100-sxm5-80gb", "cdi")
	r.healthy("gpu", 2)
	r.config(layout("{mig: {instances: {3g.40gb: 1, 1g.10gb: 3}}}"))
	r.healthy("mig-3g.40gb", 2)
	r.healthy("mig-1g.10gb", 6)
	r.healthy("gpu", 0)
	if !r.Connected("nvidia.com/gpu") {
		t.Error("the server of a resource without devices is gone; the kubelet would go on counting what it listed")
	}
	r.config(layout("{timeSlicing: {replicas: 4, rename: true}}"))
	r.healthy("gpu.shared", 8)
	before := r.Registers()
	r.config(layout("{timeSlicing: {replicas: 8, rename: true}}"))
	r.healthy("gpu.shared", 16)
	if after := r.Registers(); after != before {
		t.Errorf("%d registrations for a change of the list", after-before)
	}
}

// K01: however the kubelet loses the plugin, the list is open again, in the same process.
func TestKubeletLosesThePlugin(t *testing.T) {
	for _, tc := range []struct {
		name string
		lose func(*rig)
	}{
		{"kubelet restarts", func(r *rig) { r.Stop(); r.Boot() }},
		{"directory is wiped and the kubelet starts later", func(r *rig) { r.Stop(); r.Wipe(); r.Boot() }},
		{"stream is cut", func(r *rig) { r.Cut("nvidia.com/gpu") }},
		{"sockets are removed under a running kubelet", func(r *rig) { r.Stop(); r.Boot(); r.Wipe(); r.Stop(); r.Boot() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, "2xl40s", "cdi")
			r.healthy("gpu", 2)
			before := r.Registers()
			tc.lose(r)
			r.Wait("the plugin is back", limit, func() bool { return r.Registers() > before && r.Healthy("nvidia.com/gpu") == 2 })
		})
	}
}

// K01 in short: the list is open again soon after its stream was cut.
func TestListsSurviveACutStream(t *testing.T) {
	r := newRig(t, "1xl40s", "cdi")
	r.healthy("gpu", 1)
	before := r.Registers()
	r.Cut("nvidia.com/gpu")
	r.Wait("the list is open again", soonLimit, func() bool { return r.Registers() > before && r.Healthy("nvidia.com/gpu") == 1 })
}

// The kubelet must not be registered with again while it holds a stream; the fake kubelet fails the test if it is.
func TestNoRegistrationBesideAStream(t *testing.T) {
	r := newRig(t, "1xl40s", "cdi")
	r.healthy("gpu", 1)
	before := r.Registers()
	looks := time.NewTimer(12 * time.Second) // two looks at socket and stream, and the time to register; 120 passes of the agent
	defer looks.Stop()
	<-looks.C
	if after := r.Registers(); after != before {
		t.Errorf("%d registrations more", after-before)
	}
}

// P6: what a killed process leaves behind is cleaned up by the next one; other plugins' sockets are not ours to touch.
func TestSocketsOfAKilledProcessGo(t *testing.T) {
	r := newRigWith(t, "1xl40s", "cdi", func(dir string) {
		for _, name := range []string{"gpuslice-00000000-deadbeef.sock", "other.sock"} {
			if err := os.WriteFile(filepath.Join(dir, "device-plugins", name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	})
	r.healthy("gpu", 1)
	left, err := filepath.Glob(filepath.Join(r.Dir, "device-plugins", "*.sock"))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, path := range left {
		names = append(names, filepath.Base(path))
	}
	if len(names) != 3 || slices.Contains(names, "gpuslice-00000000-deadbeef.sock") || !slices.Contains(names, "other.sock") {
		t.Errorf("sockets are %v, want the kubelet's, the other plugin's and one of ours", names)
	}
}

func TestAllocateByCDI(t *testing.T) {
	r := newRig(t, "1xh100-sxm5-80gb", "cdi")
	r.config(layout("{mig: {slots: [3g.40gb@4]}}"))
	r.healthy("mig-3g.40gb", 1)
	id := r.Devices("nvidia.com/mig-3g.40gb")[0].GetID()
	answer, err := r.Allocate("nvidia.com/mig-3g.40gb", id)
	if err != nil {
		t.Fatal(err)
	}
	want := &pluginapi.ContainerAllocateResponse{CdiDevices: []*pluginapi.CDIDevice{{Name: "k8s.device-plugin.nvidia.com/gpu=" + id}}}
	if got := answer.String(); got != want.String() {
		t.Errorf("answer %s, want %s", got, want)
	}
	files := cdi.NewFiles(r.cdiDir)
	if uids, err := files.Claims(); err != nil || len(uids) != 0 {
		t.Errorf("claims %v, %v", uids, err)
	}
	_, err = r.Allocate("nvidia.com/mig-3g.40gb", "MIG-unknown")
	if status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), id) {
		t.Errorf("unknown id: %v; want the ids that there are", err)
	}
}

func TestAllocateByEnvironment(t *testing.T) {
	r := newRig(t, "1xl40s", "envvar")
	r.config(layout("{timeSlicing: {replicas: 2}}"))
	r.healthy("gpu", 2)
	list := r.Devices("nvidia.com/gpu")
	answer, err := r.Allocate("nvidia.com/gpu", list[0].GetID(), list[1].GetID())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"NVIDIA_VISIBLE_DEVICES": r.machine.GPUs()[0].UUID}
	if diff := cmp.Diff(want, answer.GetEnvs()); diff != "" || len(answer.GetCdiDevices()) != 0 {
		t.Errorf("two shares of one GPU reach the runtime once: %s %v", diff, answer)
	}
}

func TestTopologyIsTheGPUs(t *testing.T) {
	r := newRig(t, "2xh100-sxm5-80gb", "cdi")
	r.config(layout("{mig: {fill: 3g}}"))
	r.healthy("mig-3g.40gb", 4)
	nodes := map[int64]int{}
	for _, d := range r.Devices("nvidia.com/mig-3g.40gb") {
		if len(d.GetTopology().GetNodes()) != 1 {
			t.Fatalf("%s has topology %v", d.GetID(), d.GetTopology())
		}
		nodes[d.GetTopology().GetNodes()[0].GetID()]++
	}
	if diff := cmp.Diff(map[int64]int{0: 2, 1: 2}, nodes); diff != "" {
		t.Error(diff)
	}
}

// A lost GPU turns Unhealthy in the open stream, alone, and heals there with the admin's word.
func TestLostGPUTurnsUnhealthy(t *testing.T) {
	r := newRig(t, "4xl40s", "cdi")
	r.healthy("gpu", 4)
	before := r.Registers()
	if err := r.machine.Lose(1); err != nil {
		t.Fatal(err)
	}
	r.healthy("gpu", 3)
	if n := len(r.Devices("nvidia.com/gpu")); n != 4 {
		t.Errorf("%d devices are listed, want all 4", n)
	}
	if err := r.machine.Restore(1); err != nil {
		t.Fatal(err)
	}
	if err := r.agent.SetAnnotations(map[string]string{agent.ClearAnnotation: r.machine.GPUs()[1].UUID}); err != nil {
		t.Fatal(err)
	}
	r.healthy("gpu", 4)
	if after := r.Registers(); after != before {
		t.Errorf("%d registrations for a fault", after-before)
	}
}

func TestPreferredAllocation(t *testing.T) {
	r := newRig(t, "2xl40s", "cdi")
	r.config(layout("{timeSlicing: {replicas: 3}}"))
	r.healthy("gpu", 6)
	ids := []string{}
	for _, d := range r.Devices("nvidia.com/gpu") {
		ids = append(ids, d.GetID())
	}
	answer, err := r.Client("nvidia.com/gpu").GetPreferredAllocation(t.Context(), &pluginapi.PreferredAllocationRequest{
		ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{{AvailableDeviceIDs: ids, AllocationSize: 2}},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := answer.GetContainerResponses()[0].GetDeviceIDs()
	if len(got) != 2 || strings.Split(got[0], "::")[0] == strings.Split(got[1], "::")[0] {
		t.Errorf("two shares under spread: %v, want two GPUs", got)
	}
}

// Devices have the names by which NVIDIA's tools call them too: UUID, index, and all.
func TestNamesOfCDIDevices(t *testing.T) {
	r := newRig(t, "2xh100-sxm5-80gb", "cdi")
	r.config(head + "layouts: {it: {mig: {slots: [3g.40gb@4, 1g.10gb@0]}}}\nnodes: [{gpus: [{select: {index: 1}, layout: it}, {layout: whole}]}]\n")
	r.healthy("mig-3g.40gb", 1)
	cache, err := cdilib.NewCache(cdilib.WithSpecDirs(r.cdiDir), cdilib.WithAutoRefresh(false))
	if err != nil {
		t.Fatal(err)
	}
	gpus := r.machine.GPUs()
	want := []string{"0", "1:0", "1:1", "all", gpus[0].UUID}
	for _, i := range gpus[1].Instances { // by GPU instance id, as the driver numbers them
		want = append(want, i.UUID)
	}
	for i := range want {
		want[i] = "k8s.device-plugin.nvidia.com/gpu=" + want[i]
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, cache.ListDevices()); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	for index, i := range gpus[1].Instances {
		byIndex, byUUID := cache.GetDevice(fmt.Sprintf("k8s.device-plugin.nvidia.com/gpu=1:%d", index)), cache.GetDevice("k8s.device-plugin.nvidia.com/gpu="+i.UUID)
		if byIndex == nil || byUUID == nil {
			t.Fatalf("instance %d: %v, %v", index, byIndex, byUUID)
		}
		if diff := cmp.Diff(byUUID.ContainerEdits, byIndex.ContainerEdits); diff != "" {
			t.Errorf("1:%d is not %s (-want +got):\n%s", index, i.Slot, diff)
		}
	}
}

// K04: the largest list that is accepted is below what gRPC takes as one message, whatever its devices are called.
func TestLargestListFits(t *testing.T) {
	list := &pluginapi.ListAndWatchResponse{}
	for i := range agent.MaxListed {
		list.Devices = append(list.Devices, &pluginapi.Device{
			ID: fmt.Sprintf("MIG-11111111-2222-3333-4444-555555555555::%d", 10000+i%6384), Health: pluginapi.Unhealthy,
			Topology: &pluginapi.TopologyInfo{Nodes: []*pluginapi.NUMANode{{ID: 1023}}},
		})
	}
	const limit = 4 << 20
	if size := proto.Size(list); size > limit || size < limit*9/10 {
		t.Errorf("%d devices take %d bytes of %d", len(list.Devices), size, limit)
	}
}
