// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package node

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestMissingToRun(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	pulling := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImageNeverPull", Message: "x:1"}}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Message: "boom"}}
	status := func(phase corev1.PodPhase, states ...corev1.ContainerState) corev1.PodStatus {
		s := corev1.PodStatus{Phase: phase}
		for i, state := range states {
			s.ContainerStatuses = append(s.ContainerStatuses, corev1.ContainerStatus{Name: string(rune('a' + i)), State: state})
		}
		return s
	}
	unscheduled := corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "no GPU"},
	}}
	refused := corev1.PodStatus{Phase: corev1.PodFailed, Reason: "UnexpectedAdmissionError", Message: "no device"}
	tests := []struct {
		name, why string
		status    corev1.PodStatus
		want      string
		hopeless  bool
	}{
		{"both run", "that is what was waited for", status(corev1.PodRunning, running, running), "", false},
		{"new", "the kubelet has not seen it", status(corev1.PodPending), "phase is Pending, and the kubelet has reported 0 of 2 containers", false},
		{"unscheduled", "the scheduler's reason is the answer", unscheduled, "not scheduled: Unschedulable: no GPU", false},
		{"one waits", "one container is not enough", status(corev1.PodPending, running, pulling), "container b waits: ErrImageNeverPull: x:1", false},
		{"one ended", "it may be restarted", status(corev1.PodRunning, ended, running), "container a has ended with status 3: boom", false},
		{"refused", "the kubelet never retries admission", refused, "phase is Failed: UnexpectedAdmissionError: no device", true},
		{"done", "it will not run again", status(corev1.PodSucceeded), "phase is Succeeded: : ", true},
		{"no state", "the kubelet knows nothing yet", status(corev1.PodPending, running, corev1.ContainerState{}), "container b has no state", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: make([]corev1.Container, 2)}, Status: tt.status}
			err, got := missingToRun(pod), ""
			if err != nil {
				got = err.Error()
			}
			if got != tt.want || errors.As(err, new(hopeless)) != tt.hopeless {
				t.Errorf("missingToRun = %q (%T); want %q: %s", got, err, tt.want, tt.why)
			}
		})
	}
}
