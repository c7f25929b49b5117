// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package report_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"gpuslice/internal/agent"
	"gpuslice/internal/report"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/mig"
)

const stateLabel = "nvidia.com/mig.config.state"

// target is a GPU that a config of mig-parted's is for, with what is still to be done and what is wrong.
func target(minor int, change func(*agent.Target)) agent.Target {
	g := devices.GPU{Minor: minor, UUID: fmt.Sprintf("GPU-%d", minor)}
	t := agent.Target{GPU: g, ByMIG: true, Plan: mig.Plan{GPU: g.Name()}}
	if change != nil {
		change(&t)
	}
	return t
}

func undone(t *agent.Target) { t.Plan.Steps = []mig.Step{mig.SetMode{On: true}} }
func kept(t *agent.Target)   { t.Kept = true }

// M10: the state follows from what is there and wanted, so no way through an error leaves an old one behind.
func TestMIGState(t *testing.T) {
	asked := agent.MIGConfig{Asked: "all-balanced", Name: "all-balanced"}
	problem := func(reason agent.Reason) agent.Problem {
		return agent.Problem{GPU: "gpu-1", Reason: reason, Message: "because"}
	}
	for _, tc := range []struct {
		name string
		view agent.View
		want report.MIGState
	}{
		{"nobody asks", agent.View{Targets: []agent.Target{target(0, undone)}}, report.MIGState{}},
		{"every GPU is as it says", agent.View{MIGConfig: asked, Targets: []agent.Target{target(0, nil), target(1, nil)}}, report.MIGState{State: "success"}},
		{"unknown name", agent.View{MIGConfig: agent.MIGConfig{Asked: "typo", Fault: "known are a, b"}}, report.MIGState{State: "failed", Reason: "known are a, b"}},
		{"on its way", agent.View{MIGConfig: asked, Targets: []agent.Target{target(0, nil), target(1, undone)}}, report.MIGState{State: "pending", Reason: "plan gpu-1: set mig=on"}},
		{"a holder", agent.View{MIGConfig: asked, Targets: []agent.Target{target(1, undone)}, Problems: []agent.Problem{problem(agent.ReasonBlocked)}}, report.MIGState{State: "pending", Reason: "Blocked gpu-1: because"}},
		{"a holder of what is cut already concerns how it is offered", agent.View{MIGConfig: asked, Targets: []agent.Target{target(1, nil)}, Problems: []agent.Problem{problem(agent.ReasonBlocked)}}, report.MIGState{State: "success"}},
		{"the driver refuses", agent.View{MIGConfig: asked, Targets: []agent.Target{target(1, undone)}, Problems: []agent.Problem{problem(agent.ReasonApplyFailed)}}, report.MIGState{State: "failed", Reason: "ApplyFailed gpu-1: because"}},
		{"a reset that nobody may make", agent.View{MIGConfig: asked, Targets: []agent.Target{target(1, undone)}, Problems: []agent.Problem{problem(agent.ReasonResetRequired)}}, report.MIGState{State: "failed", Reason: "ResetRequired gpu-1: because"}},
		{"a reboot", agent.View{MIGConfig: asked, Targets: []agent.Target{target(1, undone)}, Problems: []agent.Problem{problem(agent.ReasonRebootRequired)}}, report.MIGState{State: "rebooting", Reason: "RebootRequired gpu-1: because"}},
		{"a GPU that cannot follow", agent.View{MIGConfig: asked, Targets: []agent.Target{target(0, nil), target(1, kept)}, Problems: []agent.Problem{problem(agent.ReasonImpossible)}}, report.MIGState{State: "failed", Reason: "Impossible gpu-1: because"}},
		{"another GPU's problem", agent.View{MIGConfig: asked, Targets: []agent.Target{target(0, nil)}, Problems: []agent.Problem{problem(agent.ReasonApplyFailed)}}, report.MIGState{State: "success"}},
		{"a GPU of the SharingConfig", agent.View{MIGConfig: asked, Targets: []agent.Target{target(1, func(t *agent.Target) { undone(t); t.ByMIG = false })}}, report.MIGState{State: "failed", Reason: "config all-balanced is followed by none of the 1 GPUs here: rules of the SharingConfig are for all that it would be for"}},
		{"a GPU of the SharingConfig beside one that follows", agent.View{MIGConfig: asked, Targets: []agent.Target{target(0, nil), target(1, func(t *agent.Target) { undone(t); t.ByMIG = false })}}, report.MIGState{State: "success"}},
		{"no driver yet", agent.View{MIGConfig: asked, Problems: []agent.Problem{{Reason: agent.ReasonNoDriver, Message: "not loaded"}}}, report.MIGState{State: "pending", Reason: "NoDriver: not loaded"}},
		{"a GPU that never answered", agent.View{MIGConfig: asked, Targets: []agent.Target{target(0, nil), target(1, func(t *agent.Target) { t.GPU.UUID, t.GPU.Fault, t.ByMIG = "", errors.New("lost"), false })}, Problems: []agent.Problem{problem(agent.ReasonGPUFault)}}, report.MIGState{State: "failed", Reason: "GPUFault gpu-1: because"}},
		{"a faulty GPU", agent.View{MIGConfig: asked, Targets: []agent.Target{target(1, func(t *agent.Target) { t.GPU.Fault = errors.New("lost") })}, Problems: []agent.Problem{problem(agent.ReasonGPUFault)}}, report.MIGState{State: "failed", Reason: "GPUFault gpu-1: because"}},
	} {
		if got := report.FactsOf(&tc.view).MIG; got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

// cluster is a Node that the report is about.
type cluster struct {
	t      *testing.T
	client kubernetes.Interface
	views  *views
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"nvidia.com/mig.config": "x", "mine": "stays"}}})
	c := &cluster{t: t, client: client, views: &views{view: &agent.View{}, changed: make(chan struct{})}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- report.Node(ctx, client, "n1", c.views, nil) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return c
}

func (c *cluster) node() *corev1.Node {
	c.t.Helper()
	n, err := c.client.CoreV1().Nodes().Get(c.t.Context(), "n1", metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

// until waits for a condition; what says what is missing.
func (c *cluster) until(what string, is func() bool) {
	c.t.Helper()
	start, tick := time.Now(), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for !is() {
		if time.Since(start) > 90*time.Second {
			c.t.Fatalf("not there: %s; node has %v", what, c.node().Labels)
		}
		<-tick.C
	}
}

func (c *cluster) isLabelled(want string) {
	c.t.Helper()
	c.until("label "+want, func() bool {
		labels := c.node().Labels
		return labels[stateLabel] == want && labels["mine"] == "stays"
	})
}

func (c *cluster) hasEvent(reason, note string) {
	c.t.Helper()
	c.until("event "+reason+" "+note, func() bool {
		list, err := c.client.EventsV1().Events("default").List(c.t.Context(), metav1.ListOptions{})
		if err != nil {
			c.t.Fatal(err)
		}
		for _, e := range list.Items {
			if e.Reason == reason && strings.Contains(e.Note, note) && e.Regarding.Name == "n1" {
				return true
			}
		}
		return false
	})
}

// M09, M10: the label answers, the reason is in an Event and in the condition, and the label goes when nobody asks any more.
func TestMIGStateIsWritten(t *testing.T) {
	c := newCluster(t)
	asked := agent.MIGConfig{Asked: "x", Name: "x"}
	c.views.set(&agent.View{MIGConfig: asked, Targets: []agent.Target{target(1, undone)}})
	c.isLabelled("pending")
	fault := "label nvidia.com/mig.config=x names no config that is known here; known are a, b"
	c.views.set(&agent.View{MIGConfig: agent.MIGConfig{Asked: "x", Fault: fault}, Problems: []agent.Problem{{Reason: agent.ReasonMIGConfigUnknown, Message: fault}}})
	c.isLabelled("failed")
	c.hasEvent("MIGConfigFailed", "known are a, b")
	if conditions := c.node().Status.Conditions; len(conditions) != 2 || !strings.Contains(conditions[0].Message, "known are a, b") {
		t.Errorf("conditions are %v", conditions)
	}
	c.views.set(&agent.View{MIGConfig: asked, Targets: []agent.Target{target(1, nil)}})
	c.isLabelled("success")
	c.hasEvent("MIGConfigSuccess", "every GPU is as x says")
	c.views.set(&agent.View{})
	c.until("the label's end", func() bool { _, has := c.node().Labels[stateLabel]; return !has })
}

// A label that somebody else wrote is not taken by force, and not taken away when nobody asks us.
func TestForeignStateLabelStays(t *testing.T) {
	synctest.Test(t, foreignStateLabelStays)
}

func foreignStateLabelStays(t *testing.T) {
	t.Helper()
	c := newCluster(t)
	n := c.node()
	n.Labels[stateLabel] = "success"
	if _, err := c.client.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{FieldManager: "nvidia-mig-manager"}); err != nil {
		t.Fatal(err)
	}
	c.views.set(&agent.View{ConfigHash: "h1"})
	c.until("the hash", func() bool { return c.node().Annotations[report.HashAnnotation] == "h1" })
	c.isLabelled("success")
	c.views.set(&agent.View{ConfigHash: "h2", MIGConfig: agent.MIGConfig{Asked: "x", Fault: "no"}})
	c.until("the hash", func() bool { return c.node().Annotations[report.HashAnnotation] == "h2" })
	c.isLabelled("success")
	n = c.node()
	delete(n.Labels, stateLabel)
	if _, err := c.client.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{FieldManager: "kubectl-label"}); err != nil {
		t.Fatal(err)
	}
	c.isLabelled("failed")
}

func TestStatesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range slices.Concat(report.States(), report.HealthDocs()) {
		if row := "| `" + s.Reason + "` | " + s.Means + " |"; !strings.Contains(string(text), row) {
			t.Errorf("docs/operations.md lacks the row\n%s", row)
		}
	}
}
