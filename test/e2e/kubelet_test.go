// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gpuslice/internal/agent"
	"gpuslice/test/cluster/node"
	"gpuslice/test/stage"
)

// K01, P6: however the kubelet loses the plugin, the list is open again, in the same process, and no pod notices.
func TestKubeletLosesThePlugin(t *testing.T) {
	s := begin(t, "2xl40s", config+"nodes: [{gpus: [{layout: whole}]}]\n")
	s.offers(map[string]int64{"nvidia.com/gpu": 2})
	s.must(s.Run(t.Context(), stage.Workload{Name: "worker", Resource: "nvidia.com/gpu"}))
	pid, restarts := s.PID(), s.restarts("worker")
	for _, tc := range []struct {
		name string
		lose func() error
	}{
		{"kubelet restarted", func() error { return s.RestartKubelet(t.Context()) }},
		{"directory wiped, then kubelet restarted", func() error {
			return errors.Join(wipe(node.DevicePluginDir, ""), s.RestartKubelet(t.Context()))
		}},
		{"our sockets removed under a running kubelet", func() error { return wipe(node.DevicePluginDir, "gpuslice-") }},
	} {
		sockets := s.sockets()
		s.must(tc.lose())
		s.within(lost, tc.name+": list open again", func(ctx context.Context) error {
			if now := s.sockets(); now == sockets || now == "" {
				return fmt.Errorf("the sockets are %q, were %q", now, sockets)
			}
			if err := s.UntilReady(ctx); err != nil {
				return err
			}
			got, err := s.Allocatable(ctx)
			if err == nil && got["nvidia.com/gpu"] != 2 {
				err = fmt.Errorf("allocatable %v", got)
			}
			return err
		})
		s.must(s.Alive())
		if s.PID() != pid || s.restarts("worker") != restarts {
			t.Errorf("%s: agent pid %d, was %d; worker restarted %d times", tc.name, s.PID(), pid, s.restarts("worker"))
		}
	}
	s.must(s.Run(t.Context(), stage.Workload{Name: "second", Resource: "nvidia.com/gpu"}))
}

func (s *scene) restarts(pod string) int32 {
	s.t.Helper()
	p, err := s.Client.CoreV1().Pods(stage.Namespace).Get(s.t.Context(), pod, metav1.GetOptions{})
	s.must(err)
	if p.Status.Phase != "Running" || len(p.Status.ContainerStatuses) != 1 {
		s.t.Fatalf("%s is %s: %s", pod, p.Status.Phase, p.Status.Message)
	}
	return p.Status.ContainerStatuses[0].RestartCount
}

// sockets names our sockets in the kubelet's directory.
func (s *scene) sockets() string {
	s.t.Helper()
	names, err := filepath.Glob(filepath.Join(node.DevicePluginDir, "gpuslice-*.sock"))
	s.must(err)
	return strings.Join(names, " ")
}

// wipe removes the sockets of a directory whose names begin with a prefix.
func wipe(dir, prefix string) error {
	names, err := filepath.Glob(filepath.Join(dir, prefix+"*.sock"))
	for _, name := range names {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// K01: the kubelet's connection is reset by something in between.
func TestStreamIsReset(t *testing.T) {
	between := interpose(t)
	s := begin(t, "1xl40s", config+"nodes: [{gpus: [{layout: whole}]}]\n")
	s.offers(map[string]int64{"nvidia.com/gpu": 1})
	pid, before := s.PID(), between.registrations()
	between.reset()
	s.within(lost, "list open again", func(ctx context.Context) error {
		if n := between.registrations(); n == before {
			return fmt.Errorf("%d registrations", n)
		}
		return s.UntilReady(ctx)
	})
	s.offers(map[string]int64{"nvidia.com/gpu": 1})
	s.must(s.Alive())
	if s.PID() != pid {
		t.Errorf("agent pid %d, was %d", s.PID(), pid)
	}
}

// P3: a lost GPU is unhealthy alone. That it answers again is no evidence; the admin's word is.
func TestLostGPU(t *testing.T) {
	s := begin(t, "3xl40s", config+"nodes: [{gpus: [{layout: whole}]}]\n")
	s.offers(map[string]int64{"nvidia.com/gpu": 3})
	s.must(s.Run(t.Context(), stage.Workload{Name: "worker", Resource: "nvidia.com/gpu"}))
	held, err := s.Sees(t.Context(), "worker")
	s.must(err)
	if len(held) != 1 {
		t.Fatalf("the pod sees %v", held)
	}
	number := s.number(held[0])
	s.must(s.Driver.Machine().Lose(number))
	s.offers(map[string]int64{"nvidia.com/gpu": 2})
	s.within(soon, "condition names the GPU", func(ctx context.Context) error {
		c, err := s.Condition(ctx)
		if err == nil && (c.Reason != "GPUFault" && c.Reason != "GPUUnhealthy" || !strings.Contains(c.Message, fmt.Sprintf("gpu-%d", number))) {
			err = fmt.Errorf("%s: %s", c.Reason, c.Message)
		}
		return err
	})
	s.health("worker", held[0], corev1.ResourceHealthStatusUnhealthy)
	s.must(s.Driver.Machine().Restore(number))
	s.must(s.Annotate(t.Context(), "gpuslice.dev/clear-fault", held[0]))
	s.offers(map[string]int64{"nvidia.com/gpu": 3})
	s.health("worker", held[0], corev1.ResourceHealthStatusHealthy)
}

// number is the machine's own for a GPU.
func (s *scene) number(uuid string) int {
	s.t.Helper()
	for _, g := range s.Driver.Machine().GPUs() {
		if g.UUID == uuid {
			return g.Number
		}
	}
	s.t.Fatalf("no GPU is %s", uuid)
	return 0
}

// health wants the pod's own status to say how its device is; kubelets before 1.36 do not by default.
func (s *scene) health(pod, device string, want corev1.ResourceHealthStatus) {
	s.t.Helper()
	if release := os.Getenv("K8S"); strings.HasPrefix(release, "1.34.") || strings.HasPrefix(release, "1.35.") {
		return
	}
	s.within(soon, fmt.Sprintf("pod says %s", want), func(ctx context.Context) error {
		p, err := s.Client.CoreV1().Pods(stage.Namespace).Get(ctx, pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range p.Status.ContainerStatuses {
			for _, r := range c.AllocatedResourcesStatus {
				for _, h := range r.Resources {
					if string(r.Name) == "nvidia.com/gpu" && string(h.ResourceID) == device && h.Health == want {
						return nil
					}
				}
			}
		}
		return fmt.Errorf("status %+v", p.Status.ContainerStatuses)
	})
}

// K04: the longest list that the agent accepts is one that the kubelet takes, and out of which it gives a share to a pod.
func TestLongestListRegisters(t *testing.T) {
	const gpus = 8
	replicas := agent.MaxListed / gpus
	s := begin(t, fmt.Sprintf("%dxl40s", gpus), config+fmt.Sprintf("layouts: {it: {timeSlicing: {replicas: %d, rename: true}}}\nnodes: [{gpus: [{layout: it}]}]\n", replicas))
	s.offers(map[string]int64{"nvidia.com/gpu.shared": int64(gpus * replicas)})
	s.must(s.Run(t.Context(), stage.Workload{Name: "one", Resource: "nvidia.com/gpu.shared"}))
	if given := s.allocated("one"); len(given) != 1 {
		t.Errorf("the pod has %v", given)
	}
}
