// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package kubelet

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"
)

// A checkpoint as kubelet 1.37 writes it, typed from its format: ids grouped by NUMA node, -1 for none.
const written = `{"Data":{"PodDeviceEntries":[
 {"PodUID":"u-main","ContainerName":"main","ResourceName":"nvidia.com/gpu","DeviceIDs":{"0":["GPU-1"]},"AllocResp":""},
 {"PodUID":"u-init","ContainerName":"init","ResourceName":"nvidia.com/mig-1g.10gb","DeviceIDs":{"-1":["MIG-7"]},"AllocResp":""},
 {"PodUID":"u-over","ContainerName":"main","ResourceName":"nvidia.com/gpu","DeviceIDs":{"1":["GPU-2"]},"AllocResp":""}
],"RegisteredDevices":{"nvidia.com/gpu":["GPU-1","GPU-2"]}},"Checksum":1}`

func TestParseCheckpoint(t *testing.T) {
	got, err := parseCheckpoint([]byte(written))
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{}
	for _, e := range got {
		ids = append(ids, e.podUID+" "+e.ID)
	}
	if diff := cmp.Diff([]string{"u-main GPU-1", "u-init MIG-7", "u-over GPU-2"}, ids); diff != "" {
		t.Error(diff)
	}
	if old, err := parseCheckpoint([]byte(`{"Data":{"PodDeviceEntries":[{"PodUID":"u","DeviceIDs":["a","b"]}]}}`)); err != nil || len(old) != 2 {
		t.Errorf("older form: %v, %v", old, err)
	}
	for _, bad := range []string{"", "{", `{"Data":{"PodDeviceEntries":[{"DeviceIDs":7}]}}`} {
		if _, err := parseCheckpoint([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func FuzzParseCheckpoint(f *testing.F) {
	f.Add([]byte(written))
	f.Fuzz(func(_ *testing.T, text []byte) { _, _ = parseCheckpoint(text) }) // must not panic
}

// kubeletServer answers what a kubelet would.
type kubeletServer struct {
	podresourcesv1.UnimplementedPodResourcesListerServer
	podsv1alpha1.UnimplementedPodsServer
	pods []*corev1.Pod
}

func (s *kubeletServer) List(context.Context, *podresourcesv1.ListPodResourcesRequest) (*podresourcesv1.ListPodResourcesResponse, error) {
	return &podresourcesv1.ListPodResourcesResponse{PodResources: []*podresourcesv1.PodResources{{
		Namespace: "team-a", Name: "trainer",
		Containers: []*podresourcesv1.ContainerResources{{Name: "main", Devices: []*podresourcesv1.ContainerDevices{{ResourceName: "nvidia.com/gpu", DeviceIds: []string{"GPU-1"}}}}},
	}}}, nil
}

func (s *kubeletServer) ListPods(context.Context, *podsv1alpha1.ListPodsRequest) (*podsv1alpha1.ListPodsResponse, error) {
	answer := &podsv1alpha1.ListPodsResponse{}
	for _, p := range s.pods {
		raw, err := p.Marshal()
		if err != nil {
			return nil, err
		}
		answer.Pods = append(answer.Pods, raw)
	}
	return answer, nil
}

func pod(uid string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}, Status: corev1.PodStatus{Phase: phase}}
}

// node lays out a kubelet directory; sockets and checkpoint only where asked for.
func nodeDir(t *testing.T, s *kubeletServer, podsAPI, checkpoint bool) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "k") // socket paths are limited to 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, sub := range []string{"pod-resources", "pods-api", "device-plugins"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	server := grpc.NewServer()
	t.Cleanup(server.Stop)
	serve := func(path string) {
		l, err := net.Listen("unix", filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = server.Serve(l) }() // ends with Stop
	}
	if s != nil {
		podresourcesv1.RegisterPodResourcesListerServer(server, s)
		if podsAPI {
			podsv1alpha1.RegisterPodsServer(server, s)
			serve("pods-api/pods-api.sock")
		}
		serve("pod-resources/kubelet.sock")
	}
	if checkpoint {
		if err := os.WriteFile(filepath.Join(dir, "device-plugins/kubelet_internal_checkpoint"), []byte(written), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func read(t *testing.T, dir string) (Record, error) {
	t.Helper()
	r, err := NewReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	return r.Read(t.Context())
}

func TestRead(t *testing.T) {
	trainer := Allocation{"nvidia.com/gpu", "GPU-1", "team-a/trainer/main"}
	initial := Allocation{"nvidia.com/mig-1g.10gb", "MIG-7", "pod u-init/init"}
	over := Allocation{"nvidia.com/gpu", "GPU-2", "pod u-over/main"}
	running := &kubeletServer{pods: []*corev1.Pod{pod("u-main", corev1.PodRunning), pod("u-init", corev1.PodPending), pod("u-over", corev1.PodSucceeded)}}
	for _, tc := range []struct {
		name    string
		podsAPI bool
		dirs    []string // pods that have a directory
		want    []Allocation
	}{
		{"the pods API tells what is over", true, nil, []Allocation{trainer, initial}[:2]},
		{"without it a directory that is gone does", false, []string{"u-main", "u-init"}, []Allocation{trainer, initial}},
		{"a directory that is there does not", false, []string{"u-main", "u-init", "u-over"}, []Allocation{trainer, over, initial}},
		{"without either everything is in use", false, nil, []Allocation{trainer, over, initial}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := nodeDir(t, running, tc.podsAPI, true)
			for _, uid := range tc.dirs {
				if err := os.MkdirAll(filepath.Join(dir, "pods", uid), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			got, err := read(t, dir)
			if err != nil || got.Absent || got.ForeignPIDs {
				t.Fatalf("%+v, %v", got, err)
			}
			if diff := cmp.Diff(tc.want, got.Allocations); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadWithoutKubelet(t *testing.T) {
	if got, err := read(t, nodeDir(t, nil, false, false)); err != nil || !got.Absent {
		t.Errorf("no socket and no checkpoint is no kubelet: %+v, %v", got, err)
	}
	if got, err := read(t, filepath.Join(t.TempDir(), "typo")); err == nil {
		t.Errorf("a directory that is no kubelet's tells nothing: %+v", got)
	}
	if got, err := read(t, nodeDir(t, nil, false, true)); err == nil {
		t.Errorf("a kubelet that is down is unknown, not idle: %+v", got)
	}
}

// What a container holds is found by the pod's UID and its own name, under whatever resource; an id that an init container held
// before is held by both.
func TestHeld(t *testing.T) {
	const text = `{"Data":{"PodDeviceEntries":[
 {"PodUID":"u1","ContainerName":"init","ResourceName":"nvidia.com/gpu.shared","DeviceIDs":{"0":["GPU-1::0"]}},
 {"PodUID":"u1","ContainerName":"main","ResourceName":"nvidia.com/gpu.shared","DeviceIDs":{"0":["GPU-1::0"],"1":["GPU-2::3"]}},
 {"PodUID":"u1","ContainerName":"main","ResourceName":"nvidia.com/other","DeviceIDs":{"-1":["GPU-3::0"]}},
 {"PodUID":"u2","ContainerName":"main","ResourceName":"nvidia.com/gpu.shared","DeviceIDs":{"0":["GPU-1::1"]}}]}}`
	dir := t.TempDir()
	file := filepath.Join(dir, "device-plugins/kubelet_internal_checkpoint")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() }) // it is not connected
	if got, err := r.Held("u1", "main"); err != nil || len(got) > 0 {
		t.Errorf("without a checkpoint: %q, %v", got, err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		pod, container string
		want           []string
	}{
		{"u1", "main", []string{"GPU-1::0", "GPU-2::3", "GPU-3::0"}},
		{"u1", "init", []string{"GPU-1::0"}},
		{"u2", "main", []string{"GPU-1::1"}},
		{"u2", "init", []string{}},
		{"", "main", []string{}},
	} {
		got, err := r.Held(tc.pod, tc.container)
		if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
			t.Errorf("%s of %s: %v (-want +got):\n%s", tc.container, tc.pod, err, diff)
		}
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Held("u1", "main"); err == nil {
		t.Error("half a checkpoint was read")
	}
}
