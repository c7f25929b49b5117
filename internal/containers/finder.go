// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package containers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gpuslice/internal/agent"
)

// Finder finds containers of this node.
type Finder struct {
	Client kubernetes.Interface
	Proc   string // of the host's PID namespace, "/proc"
}

// Look implements agent.Containers. Of a privileged container nothing is said: it sees the nodes of the host whoever injects.
func (f Finder) Look(ctx context.Context, namespace, pod, container string, minors []int) (agent.Sight, error) {
	p, err := f.Client.CoreV1().Pods(namespace).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return agent.Sight{}, fmt.Errorf("get pod %s/%s: %w", namespace, pod, err)
	}
	state := stateOf(p, container)
	if state == nil || isPrivileged(p, container) {
		return agent.Sight{}, nil
	}
	if refused := refusal(state.State.Waiting); refused != "" {
		return agent.Sight{Judged: true, Lacks: "the runtime does not make it: " + refused}, nil
	}
	_, id, _ := strings.Cut(state.ContainerID, "://")
	if state.State.Running == nil || id == "" {
		return agent.Sight{}, nil
	}
	pid, err := f.process(id)
	if err != nil {
		return agent.Sight{}, err
	}
	lacking, err := f.lacking(pid, minors)
	if err != nil || lacking == "" {
		return agent.Sight{Judged: err == nil}, err
	}
	return agent.Sight{Judged: true, Lacks: "it runs without " + lacking}, nil
}

func stateOf(p *corev1.Pod, container string) *corev1.ContainerStatus {
	all := slices.Concat(p.Status.ContainerStatuses, p.Status.InitContainerStatuses)
	if i := slices.IndexFunc(all, func(s corev1.ContainerStatus) bool { return s.Name == container }); i >= 0 {
		return &all[i]
	}
	return nil
}

func isPrivileged(p *corev1.Pod, container string) bool {
	return slices.ContainsFunc(slices.Concat(p.Spec.Containers, p.Spec.InitContainers), func(c corev1.Container) bool {
		return c.Name == container && c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
	})
}

// maxRefusal bounds what is passed on of the runtime's words.
const maxRefusal = 256

// refusal is why the runtime does not make a container, where that is about CDI; containerd and CRI-O both call what they cannot
// find an unresolvable CDI device.
func refusal(w *corev1.ContainerStateWaiting) string {
	if w == nil || !strings.Contains(w.Message, "CDI") {
		return ""
	}
	return strings.ToValidUTF8(w.Message[:min(len(w.Message), maxRefusal)], "")
}

// maxTable bounds what is read of /proc/PID/cgroup.
const maxTable = 64 << 10

// process is the first process whose cgroup bears the name of a container.
func (f Finder) process(id string) (pid int, err error) {
	entries, err := os.ReadDir(f.Proc)
	if err != nil {
		return 0, fmt.Errorf("find processes of container %s: %w", id, err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if file, err := os.Open(filepath.Join(f.Proc, e.Name(), "cgroup")); err == nil {
			table, _ := io.ReadAll(io.LimitReader(file, maxTable)) // what has ended meanwhile is not it
			file.Close()
			if strings.Contains(string(table), id) {
				return pid, nil
			}
		}
	}
	return 0, fmt.Errorf("container %s has no process that is visible here; the agent needs the host's PID namespace (hostPID)", id)
}

// lacking is the first node of a GPU that a process does not see.
func (f Finder) lacking(pid int, minors []int) (string, error) {
	root := filepath.Join(f.Proc, strconv.Itoa(pid), "root")
	for _, minor := range minors {
		node := fmt.Sprintf("/dev/nvidia%d", minor)
		var stat unix.Stat_t
		err := unix.Lstat(filepath.Join(root, node), &stat)
		if errors.Is(err, fs.ErrNotExist) {
			if _, gone := os.Lstat(root); gone != nil {
				return "", fmt.Errorf("process %d of the container has ended", pid)
			}
			return node, nil
		}
		if err != nil {
			return "", fmt.Errorf("look into process %d: %w", pid, err)
		}
		if stat.Mode&unix.S_IFMT != unix.S_IFCHR || int(unix.Minor(stat.Rdev)) != minor {
			return node, nil
		}
	}
	return "", nil
}
