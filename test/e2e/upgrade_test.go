// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gpuslice/test/stage"
)

// deployed is a scene whose agent is the pod of a DaemonSet.
func deployed(t *testing.T, machine, text string) *scene {
	t.Helper()
	s := begin(t, machine, text)
	s.must(s.StopAgent(t.Context()))
	t.Cleanup(func() {
		if err := s.Withdraw(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	s.must(s.Deploy(t.Context()))
	return s
}

// P6: the agent is a DaemonSet and is upgraded with maxSurge 0: another pod comes, no container of anybody else starts anew, the
// devices that were given stay given and are in the first list, and no instance is made anew.
func TestUpgrade(t *testing.T) {
	s := deployed(t, "1xh100-sxm5-80gb", sliced)
	s.offers(map[string]int64{"nvidia.com/mig-3g.40gb": 1})
	s.must(s.Run(t.Context(), stage.Workload{Name: "worker", Resource: "nvidia.com/mig-3g.40gb"}))
	slice, worker, given := s.uuid(0, "3g.40gb@0"), s.containerID("worker"), s.allocated("worker")
	for _, verbosity := range []string{"-v=3", "-v=4"} {
		before := s.agentPod()
		s.must(s.Deploy(t.Context(), verbosity))
		after := s.agentPod()
		if after.UID == before.UID {
			t.Fatalf("%s: the agent's pod is still %s", verbosity, before.UID)
		}
		t.Logf("%s: from the start of the container to ready in %v", verbosity, tookToReady(after))
		s.offers(map[string]int64{"nvidia.com/mig-3g.40gb": 1})
		s.sees("worker", s.uuid(0, ""), slice)
		if now := s.containerID("worker"); now != worker || s.restarts("worker") != 0 {
			t.Errorf("%s: the container is %s, was %s; %d restarts", verbosity, now, worker, s.restarts("worker"))
		}
		if now := s.allocated("worker"); strings.Join(now, " ") != strings.Join(given, " ") {
			t.Errorf("%s: the pod has %v, had %v", verbosity, now, given)
		}
	}
	s.untouched("3g.40gb@0")
}

func (s *scene) agentPod() corev1.Pod {
	s.t.Helper()
	pods, err := s.AgentPods(s.t.Context())
	s.must(err)
	if len(pods) != 1 {
		s.t.Fatalf("%d pods of the agent", len(pods))
	}
	return pods[0]
}

// tookToReady has the precision of the API, which is a second.
func tookToReady(p corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if running := p.Status.ContainerStatuses[0].State.Running; c.Type == corev1.PodReady && running != nil {
			return c.LastTransitionTime.Sub(running.StartedAt.Time).String()
		}
	}
	return "?"
}

func (s *scene) containerID(pod string) string {
	s.t.Helper()
	p, err := s.Client.CoreV1().Pods(stage.Namespace).Get(s.t.Context(), pod, metav1.GetOptions{})
	s.must(err)
	return p.Status.ContainerStatuses[0].ContainerID
}

// K06, P1: a second agent in a pod of its own waits, is not ready and names the first; what the node offers is not doubled. When
// the first is gone it takes over.
func TestSecondPodWaits(t *testing.T) {
	s := deployed(t, "2xl40s", config+"nodes: [{gpus: [{layout: whole}]}]\n")
	s.offers(map[string]int64{"nvidia.com/gpu": 2})
	s.must(s.Run(t.Context(), stage.Workload{Name: "worker", Resource: "nvidia.com/gpu"}))
	second, err := s.SecondPod(t.Context(), "second")
	s.must(err)
	s.within(soon, "the second names the first", func(ctx context.Context) error {
		status, err := second.Status(ctx)
		if err == nil && !strings.Contains(fmt.Sprint(status["problems"]), "gpu-plugin pid ") {
			err = fmt.Errorf("%v", status["problems"])
		}
		return err
	})
	if second.Ready(t.Context()) == nil {
		t.Error("two agents are ready")
	}
	s.offers(map[string]int64{"nvidia.com/gpu": 2})
	s.must(s.Withdraw(t.Context()))
	s.within(soon, "the second takes over", second.Ready)
	s.offers(map[string]int64{"nvidia.com/gpu": 2})
	if n := s.restarts("worker"); n != 0 {
		t.Errorf("worker restarted %d times", n)
	}
	s.within(soon, "the second is ready for the cluster too", func(ctx context.Context) error {
		p, err := s.Client.CoreV1().Pods(stage.Namespace).Get(ctx, "second", metav1.GetOptions{})
		if err == nil && !ready(p) {
			err = errors.New("it is not")
		}
		return err
	})
}

func ready(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
