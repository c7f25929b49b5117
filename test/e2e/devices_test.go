// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"gpuslice/internal/kubelet"
	"gpuslice/test/cluster/node"
	"gpuslice/test/stage"
)

// K08, P12: what was allocated, what runc was told, what is in /dev and what the driver shows inside are one and the same.
func TestContainerSeesExactlyItsDevices(t *testing.T) {
	s := begin(t, "2xh100-sxm5-80gb,1xl40s", config+`
layouts: {it: {mig: {fill: 3g}}, nb: {timeSlicing: {replicas: 2}}}
nodes: [{gpus: [{select: {index: 0}, layout: it}, {select: {index: 1}, layout: nb}]}]
`)
	s.offers(map[string]int64{"nvidia.com/mig-3g.40gb": 2, "nvidia.com/gpu": 3})
	for _, w := range []stage.Workload{
		{Name: "left", Resource: "nvidia.com/mig-3g.40gb"}, {Name: "right", Resource: "nvidia.com/mig-3g.40gb"}, {Name: "share", Resource: "nvidia.com/gpu"},
	} {
		s.must(s.Run(t.Context(), w))
		given := s.allocated(w.Name)
		inside, err := s.Sees(t.Context(), w.Name)
		s.must(err)
		if len(given) != 1 || !slices.Contains(inside, given[0]) {
			t.Errorf("%s was given %v and sees %v", w.Name, given, inside)
		}
		nodes, err := s.Nodes(t.Context(), w.Name)
		s.must(err)
		if diff := cmp.Diff(s.nodesOf(given[0]), nodes); diff != "" {
			t.Errorf("%s: /dev (-want +got):\n%s", w.Name, diff)
		}
		if diff := cmp.Diff(s.nodesOf(given[0]), s.allowedByRunc(w.Name)); diff != "" {
			t.Errorf("%s: runc's config.json (-want +got):\n%s", w.Name, diff)
		}
	}
}

// allocated asks the kubelet what a pod was given, and drops the numbers of shares.
func (s *scene) allocated(pod string) []string {
	s.t.Helper()
	reader, err := kubelet.NewReader(node.KubeletDir)
	s.must(err)
	defer reader.Close()
	record, err := reader.Read(s.t.Context())
	s.must(err)
	ids := []string{}
	for _, a := range record.Allocations {
		if strings.HasPrefix(a.Holder, stage.Namespace+"/"+pod+"/") {
			id, _, _ := strings.Cut(a.ID, "::")
			ids = append(ids, id)
		}
	}
	return ids
}

// nodesOf lists the device nodes that belong to a UUID, by the machine's account and the kernel module's numbering.
func (s *scene) nodesOf(uuid string) []string {
	s.t.Helper()
	for _, g := range s.Driver.Machine().GPUs() {
		gpu := fmt.Sprintf("/dev/nvidia%d", g.Minor)
		if g.UUID == uuid {
			return []string{gpu}
		}
		for _, i := range g.Instances {
			if i.UUID == uuid {
				cap := 3 + 135*g.Minor + 9*i.GI
				return []string{gpu, fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", cap), fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", cap+1+i.CI)}
			}
		}
	}
	s.t.Fatalf("nobody has %s", uuid)
	return nil
}

// allowedByRunc reads the bundle: nodes of GPUs and capabilities that are made and allowed.
func (s *scene) allowedByRunc(pod string) []string {
	s.t.Helper()
	p, err := s.Client.CoreV1().Pods(stage.Namespace).Get(s.t.Context(), pod, metav1.GetOptions{})
	s.must(err)
	_, id, _ := strings.Cut(p.Status.ContainerStatuses[0].ContainerID, "://")
	text, err := os.ReadFile(node.BundleSpec(id))
	s.must(err)
	var spec struct {
		Linux struct {
			Devices []struct {
				Path         string
				Major, Minor int64
			}
			Resources struct {
				Devices []struct {
					Allow        bool
					Major, Minor *int64
				}
			}
		}
	}
	s.must(json.Unmarshal(text, &spec))
	paths := []string{}
	for _, d := range spec.Linux.Devices {
		if !strings.HasPrefix(d.Path, "/dev/nvidia-caps/") && strings.Trim(strings.TrimPrefix(d.Path, "/dev/nvidia"), "0123456789") != "" {
			continue // control nodes that every container with a GPU has
		}
		allowed := slices.ContainsFunc(spec.Linux.Resources.Devices, func(r struct {
			Allow        bool
			Major, Minor *int64
		},
		) bool {
			return r.Allow && r.Major != nil && r.Minor != nil && *r.Major == d.Major && *r.Minor == d.Minor
		})
		if !allowed {
			s.t.Errorf("%s: %s is made and not allowed", pod, d.Path)
		}
		paths = append(paths, d.Path)
	}
	return paths
}

// P12: a pod that brings the GPU's node and the driver's files itself, by hostPath, gets no instance through us.
func TestHostPathGivesNoInstance(t *testing.T) {
	s := begin(t, "1xh100-sxm5-80gb", config+"layouts: {it: {mig: {fill: 3g}}}\nnodes: [{gpus: [{layout: it}]}]\n")
	s.offers(map[string]int64{"nvidia.com/mig-3g.40gb": 2})
	pod := stage.Workload{Name: "smuggler"}.Pod()
	file, dir := corev1.HostPathFile, corev1.HostPathDirectory
	device := corev1.HostPathCharDev
	for i, m := range []struct {
		host, inside string
		kind         *corev1.HostPathType
	}{
		{"dev/nvidia0", "/dev/nvidia0", &device},
		{"dev/nvidiactl", "/dev/nvidiactl", &device},
		{"usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", &file},
		{"run/nvidia-persistenced", "/run/nvidia-persistenced", &dir},
	} {
		name := fmt.Sprintf("v%d", i)
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: filepath.Join(s.DriverRoot(), m.host), Type: m.kind}}})
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: name, MountPath: m.inside})
	}
	_, err := s.Client.CoreV1().Pods(stage.Namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	s.must(err)
	s.must(s.PodRunning(t.Context(), stage.Namespace, "smuggler"))
	seen, err := s.Sees(t.Context(), "smuggler")
	if err == nil && slices.ContainsFunc(seen, func(u string) bool { return strings.HasPrefix(u, "MIG-") }) {
		t.Errorf("it sees %v", seen)
	}
	t.Logf("it sees %v, %v", seen, err)
}

// P10: no driver call on the allocation path, counted at the driver by the agent's pid. Waiting for events is not a call
// about allocation and goes on by itself.
func TestAllocationMakesNoDriverCall(t *testing.T) {
	s := begin(t, "1xh100-sxm5-80gb", config+"nodes: [{gpus: [{layout: all-1g}]}]\n", "--poll=1h")
	s.offers(map[string]int64{"nvidia.com/mig-1g.10gb": 7})
	client, ids := s.plugin("nvidia.com/mig-1g.10gb")
	before := s.calls()
	for i := range 1000 {
		_, err := client.Allocate(t.Context(), &pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: ids[i%7 : i%7+1]}}})
		s.must(err)
		_, err = client.GetPreferredAllocation(t.Context(), &pluginapi.PreferredAllocationRequest{
			ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{{AvailableDeviceIDs: ids, AllocationSize: 2}},
		})
		s.must(err)
	}
	if after := s.calls(); after != before {
		t.Errorf("%d driver calls in 1,000 allocations and 1,000 preferences", after-before)
	}
}

func (s *scene) calls() int {
	n := 0
	for name, count := range s.Driver.Calls(s.PID()) {
		if !strings.Contains(name, "EventSetWait") {
			n += count
		}
	}
	return n
}

// plugin connects to the server that lists instances, as the kubelet does.
func (s *scene) plugin(resource string) (pluginapi.DevicePluginClient, []string) {
	s.t.Helper()
	for path := range strings.FieldsSeq(s.sockets()) {
		conn, err := grpc.NewClient("passthrough:///"+path, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, path string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", path)
			}))
		s.must(err)
		s.t.Cleanup(func() { conn.Close() })
		client := pluginapi.NewDevicePluginClient(conn)
		stream, err := client.ListAndWatch(s.t.Context(), &pluginapi.Empty{})
		s.must(err)
		list, err := stream.Recv()
		s.must(err)
		ids := []string{}
		for _, d := range list.GetDevices() {
			ids = append(ids, d.GetID())
		}
		if len(ids) > 1 {
			return client, ids
		}
	}
	s.t.Fatalf("no socket lists %s", resource)
	return nil, nil
}
