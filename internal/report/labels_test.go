// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package report_test

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gpuslice/internal/agent"
	"gpuslice/internal/report"
	"gpuslice/pkg/devices"
)

// The label follows the view beside the other one, goes when no layout asks for limits, and stays while an agent starts.
func TestMemoryLimitIsWritten(t *testing.T) {
	c := newCluster(t)
	labelled := func(memory, state string) {
		t.Helper()
		c.until("labels "+memory+" and "+state, func() bool {
			labels := c.node().Labels
			return labels[report.MemoryLimitLabel] == memory && labels[stateLabel] == state && labels["mine"] == "stays"
		})
	}
	asked := agent.MIGConfig{Asked: "x", Name: "x"}
	c.views.set(&agent.View{MemoryLimit: agent.NoLimit})
	labelled("none", "")
	c.views.set(&agent.View{MemoryLimit: agent.NoLimit, MIGConfig: asked, Targets: []agent.Target{target(1, nil)}})
	labelled("none", "success")
	c.views.set(&agent.View{MemoryLimit: agent.Enforced, MIGConfig: asked, Targets: []agent.Target{target(1, nil)}})
	labelled("enforced", "success")
	c.views.set(nil) // as at the start of a process
	c.until("word of the start", func() bool {
		conditions := c.node().Status.Conditions
		return len(conditions) == 2 && conditions[0].Reason == "Starting"
	})
	labelled("enforced", "success")
	c.views.set(&agent.View{MemoryLimit: agent.Enforced})
	labelled("enforced", "")
	c.views.set(&agent.View{})
	c.until("the labels' end", func() bool { _, has := c.node().Labels[report.MemoryLimitLabel]; return !has })
}

// A label that an admin wrote by hand is not taken away where no layout asks for limits.
func TestForeignMemoryLimitLabelStays(t *testing.T) {
	c := newCluster(t)
	n := c.node()
	n.Labels[report.MemoryLimitLabel] = "mps"
	if _, err := c.client.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{FieldManager: "kubectl"}); err != nil {
		t.Fatal(err)
	}
	c.views.set(&agent.View{ConfigHash: "h1"})
	c.until("the hash", func() bool { return c.node().Annotations[report.HashAnnotation] == "h1" })
	if got := c.node().Labels[report.MemoryLimitLabel]; got != "mps" {
		t.Errorf("label is %q", got)
	}
}

// K16: a node on which a GPU works in the host's memory has a label that says so, as long as it is there; GPUs that are not offered
// do not count, and a fault changes nothing.
func TestUnifiedMemoryIsLabelled(t *testing.T) {
	c := newCluster(t)
	unified, card := devices.GPU{UUID: "GPU-0", Unified: true}, devices.GPU{UUID: "GPU-1"}
	faulty, integrated := unified, unified
	faulty.Fault, integrated.Unsupported = errors.New("lost"), errors.New("not supported here")
	for _, tc := range []struct {
		name string
		gpus []devices.GPU
		want string
	}{
		{"a card", []devices.GPU{card}, ""},
		{"a card and one without memory", []devices.GPU{card, unified}, "true"},
		{"it is faulty", []devices.GPU{faulty}, "true"},
		{"in a system on a chip", []devices.GPU{integrated}, ""},
	} {
		c.views.set(&agent.View{Node: devices.Node{GPUs: tc.gpus}, ConfigHash: strings.ReplaceAll(tc.name, " ", "-")})
		c.until(tc.name, func() bool {
			n := c.node()
			return n.Annotations[report.HashAnnotation] == strings.ReplaceAll(tc.name, " ", "-") && n.Labels[report.UnifiedMemoryLabel] == tc.want
		})
	}
}
