// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package containers_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"gpuslice/internal/agent"
	"gpuslice/internal/containers"
)

// processes writes a /proc in which process 12 is of container c1 and sees /dev/nvidia0, as cgroup v1 and v2 tell of it.
func processes(t *testing.T) string {
	t.Helper()
	proc := t.TempDir()
	for pid, table := range map[string]string{
		"1":  "0::/init.scope\n",
		"11": "4:memory:/kubepods/pod1/pause\n0::/\n",
		"12": "4:memory:/kubepods/pod1/c1\n0::/\n",
		"13": "0::/kubepods.slice/kubepods-pod2.slice/cri-containerd-c2.scope\n",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Join(proc, pid, "root/dev"), 0o755), os.WriteFile(filepath.Join(proc, pid, "cgroup"), []byte(table), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	node := func(pid, name string, minor uint32) error {
		return unix.Mknod(filepath.Join(proc, pid, "root/dev", name), unix.S_IFCHR|0o666, int(unix.Mkdev(195, minor)))
	}
	err := errors.Join(node("12", "nvidia0", 0), node("13", "nvidia0", 3), // the number of another GPU
		os.WriteFile(filepath.Join(proc, "13/root/dev/nvidia1"), nil, 0o600), os.WriteFile(filepath.Join(proc, "uptime"), nil, 0o600))
	if err != nil {
		t.Fatal(err) // tests run as root
	}
	return proc
}

// A container that runs has its nodes or lacks them; one that the runtime refuses to make because of CDI lacks them too. Whoever
// does not run yet, sees the nodes of the host anyway, or cannot be found, tells nothing.
func TestLook(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	waiting := func(reason, message string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
	yes := true
	for _, tt := range []struct {
		name   string
		id     string
		state  corev1.ContainerState
		edit   func(*corev1.Pod)
		minors []int
		judged bool
		lacks  string
		err    string
	}{
		{name: "has its node", id: "containerd://c1", state: running, minors: []int{0}, judged: true},
		{name: "lacks one of two", id: "containerd://c1", state: running, minors: []int{0, 1}, judged: true, lacks: "/dev/nvidia1"},
		{name: "systemd's names, node of another GPU", id: "cri-o://c2", state: running, minors: []int{0}, judged: true, lacks: "/dev/nvidia0"},
		{name: "a file in the node's place", id: "cri-o://c2", state: running, minors: []int{1}, judged: true, lacks: "/dev/nvidia1"},
		{name: "is not visible here", id: "containerd://c3", state: running, minors: []int{0}, err: "hostPID"},
		{name: "does not run yet", state: waiting("ContainerCreating", ""), minors: []int{0}},
		{
			name: "is refused", state: waiting("CreateContainerError", "failed to inject: unresolvable CDI devices k8s.device-plugin.nvidia.com/gpu=GPU-1"),
			minors: []int{0}, judged: true, lacks: "unresolvable CDI devices",
		},
		{name: "is refused for something else", state: waiting("CreateContainerError", "no such image"), minors: []int{0}},
		{name: "is privileged", id: "containerd://c1", state: running, minors: []int{1}, edit: func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes}
		}},
		{name: "is an init container", id: "containerd://c1", state: running, minors: []int{1}, judged: true, lacks: "/dev/nvidia1", edit: func(p *corev1.Pod) {
			p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers, nil
			p.Status.InitContainerStatuses, p.Status.ContainerStatuses = p.Status.ContainerStatuses, nil
		}},
		{name: "has no status", minors: []int{0}, edit: func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }},
		{name: "is gone", minors: []int{0}, edit: func(p *corev1.Pod) { p.Name = "another" }, err: "not found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "trainer"},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}},
				Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "main", ContainerID: tt.id, State: tt.state}}},
			}
			if tt.edit != nil {
				tt.edit(p)
			}
			f := containers.Finder{Client: fake.NewClientset(p), Proc: processes(t)}
			got, err := f.Look(t.Context(), "a", "trainer", "main", tt.minors)
			if (tt.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
			if got.Judged != tt.judged || (tt.lacks == "") != (got.Lacks == "") || !strings.Contains(got.Lacks, tt.lacks) {
				t.Errorf("got %+v, want judged %v, lacks %q", got, tt.judged, tt.lacks)
			}
		})
	}
}

var _ agent.Containers = containers.Finder{}
