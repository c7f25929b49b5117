// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package node

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestReadySince(t *testing.T) {
	start := time.Date(2026, 5, 1, 10, 0, 5, 0, time.UTC)
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, heartbeat time.Time) corev1.NodeCondition {
		return corev1.NodeCondition{Type: kind, Status: status, Reason: "R", Message: "m", LastHeartbeatTime: metav1.NewTime(heartbeat)}
	}
	tests := []struct {
		name, why  string
		conditions []corev1.NodeCondition
		want       string
	}{
		{"same second", "the API drops fractions", []corev1.NodeCondition{condition(corev1.NodeReady, corev1.ConditionTrue, start)}, ""},
		{
			"old report", "the stopped kubelet wrote it",
			[]corev1.NodeCondition{condition(corev1.NodeReady, corev1.ConditionTrue, start.Add(-time.Second))},
			"the node was last reported ready at 10:00:04",
		},
		{
			"not ready", "the kubelet's reason is the answer",
			[]corev1.NodeCondition{condition(corev1.NodeReady, corev1.ConditionFalse, start)},
			"the node is not ready: R: m",
		},
		{
			"other condition", "pressure says nothing about readiness",
			[]corev1.NodeCondition{condition(corev1.NodeDiskPressure, corev1.ConditionTrue, start)},
			"the node has no Ready condition",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err, got := readySince(tt.conditions, start), ""
			if err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("readySince = %q; want %q: %s", got, tt.want, tt.why)
			}
		})
	}
}

func TestMissingPod(t *testing.T) {
	a := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", UID: "1"}}
	again := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", UID: "2"}}
	tests := []struct {
		name, why    string
		bound, known []corev1.Pod
		want         string
	}{
		{"none bound", "there is nothing to know", nil, []corev1.Pod{a}, ""},
		{"known", "the kubelet has read it", []corev1.Pod{a}, []corev1.Pod{again, a}, ""},
		{"unknown", "the kubelet has not read its pods yet", []corev1.Pod{a}, nil, "the kubelet does not know of pod n/a"},
		{"same name", "a pod of the same name is another pod", []corev1.Pod{a}, []corev1.Pod{again}, "the kubelet does not know of pod n/a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err, got := missingPod(tt.bound, tt.known), ""
			if err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("missingPod = %q; want %q: %s", got, tt.want, tt.why)
			}
		})
	}
}
