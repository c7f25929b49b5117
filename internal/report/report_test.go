// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package report_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"gpuslice/internal/agent"
	"gpuslice/internal/features"
	"gpuslice/internal/report"
)

func TestFactsOf(t *testing.T) {
	alias := agent.Problem{GPU: "gpu-0", Reason: agent.ReasonAlias, Message: "7g.79gb is called 7g.80gb"}
	blocked := agent.Problem{GPU: "gpu-1", Reason: agent.ReasonBlocked, Message: "3g.40gb@0 in use by team-a/trainer"}
	unlimited := agent.Problem{GPU: "gpu-0", Reason: agent.ReasonMemoryNotLimited, Message: "the driver is older"}
	for _, tc := range []struct {
		name string
		view *agent.View
		want report.Facts
	}{
		{"nothing is known before the first look", nil, report.Facts{Status: corev1.ConditionUnknown, Reason: "Starting", Message: "the layout of this node is not verified yet"}},
		{"as configured", &agent.View{ConfigHash: "abc"}, report.Facts{Status: corev1.ConditionTrue, Reason: "AsConfigured", Message: "every GPU is offered as configured", Hash: "abc"}},
		{"information is no problem", &agent.View{Problems: []agent.Problem{alias}}, report.Facts{Status: corev1.ConditionTrue, Reason: "AsConfigured", Message: "every GPU is offered as configured"}},
		{"what a pod may see by its environment is told", &agent.View{Problems: []agent.Problem{{Reason: agent.ReasonEnvInjectionOpen, Message: "any pod"}}}, report.Facts{Status: corev1.ConditionTrue, Reason: "AsConfigured", Message: "every GPU is offered as configured\nEnvInjectionOpen: any pod"}},
		{"who shares a GPU without limits is told", &agent.View{MemoryLimit: agent.NoLimit, Problems: []agent.Problem{unlimited}}, report.Facts{Status: corev1.ConditionTrue, Reason: "AsConfigured", Message: "every GPU is offered as configured\nMemoryNotLimited gpu-0: the driver is older", Memory: "none"}},
		{"the first problem gives the reason", &agent.View{Problems: []agent.Problem{alias, blocked}}, report.Facts{Status: corev1.ConditionFalse, Reason: "Blocked", Message: "Blocked gpu-1: 3g.40gb@0 in use by team-a/trainer"}},
	} {
		got := report.FactsOf(tc.view)
		got.Health = report.HealthFacts{} // TestConditionOfHealth
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
	long := report.FactsOf(&agent.View{Problems: []agent.Problem{{Reason: agent.ReasonBlocked, Message: strings.Repeat("ä", 2000)}}})
	if len(long.Message) > 1024 || !strings.HasSuffix(long.Message, " …") || strings.Contains(long.Message, "\uFFFD") {
		t.Errorf("a long message has %d bytes and ends in %q", len(long.Message), long.Message[len(long.Message)-8:])
	}
}

// views is an agent whose view the test sets.
type views struct {
	mu       sync.Mutex
	view     *agent.View
	changed  chan struct{}
	problems map[string][]agent.Problem
}

func (v *views) View() (*agent.View, <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.view, v.changed
}

// SetProblems keeps what was told last, by part.
func (v *views) SetProblems(part string, ps []agent.Problem) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.problems == nil {
		v.problems = map[string][]agent.Problem{}
	}
	v.problems[part] = ps
}

func (v *views) told(part string) []agent.Problem {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.problems[part]
}

func (v *views) set(x *agent.View) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.view = x
	close(v.changed)
	v.changed = make(chan struct{})
}

// The Node is patched on change only, and tried again when the API server does not take it.
func TestNodeFollowsTheView(t *testing.T) {
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{"mine": "stays"}}})
	var mu sync.Mutex
	patches, failures := 0, 1
	client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		patches++
		if failures > 0 {
			failures--
			return true, nil, errors.New("API server is away")
		}
		return false, nil, nil
	})
	v := &views{view: &agent.View{ConfigHash: "h1"}, changed: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- report.Node(ctx, client, "n1", v, nil) }()
	has := func(status corev1.ConditionStatus, hash string) {
		t.Helper()
		start, tick := time.Now(), time.NewTicker(50*time.Millisecond)
		defer tick.Stop()
		for {
			n, err := client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			ready := len(n.Status.Conditions) == 2 && n.Status.Conditions[0].Status == status
			labelled := n.Labels[features.ModeLabel] == "none"
			if ready && labelled && n.Annotations[report.HashAnnotation] == hash && n.Annotations["mine"] == "stays" {
				return
			}
			if time.Since(start) > 50*time.Second {
				t.Fatalf("node is %v %v", n.Annotations, n.Status.Conditions)
			}
			<-tick.C
		}
	}
	has(corev1.ConditionTrue, "h1")
	mu.Lock()
	before := patches
	mu.Unlock()
	for range 10 {
		v.set(&agent.View{ConfigHash: "h1", Generation: 7}) // a new view that says nothing new
	}
	v.set(&agent.View{ConfigHash: "h2", Problems: []agent.Problem{{Reason: agent.ReasonBlocked, Message: "x"}}})
	has(corev1.ConditionFalse, "h2")
	mu.Lock()
	if made := patches - before; made != 2 {
		t.Errorf("%d patches for one change of annotation and condition, want 2", made)
	}
	mu.Unlock()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Every reason that the agent knows is documented, and docs/operations.md is what the documentation says.
func TestReasonsAreDocumented(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../agent/problem.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == 1 {
			if lit, ok := v.Values[0].(*ast.BasicLit); ok {
				known[strings.Trim(lit.Value, `"`)] = false
			}
		}
		return true
	})
	rows := []string{}
	for _, d := range report.Reasons() {
		if _, ok := known[string(d.Reason)]; !ok || d.Means == "" || d.Fix == "" {
			t.Errorf("reason %s is not one of the agent's, or has no text", d.Reason)
		}
		known[string(d.Reason)] = true
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |", d.Reason, d.Means, d.Fix))
	}
	for reason, documented := range known {
		if !documented {
			t.Errorf("reason %s is not documented", reason)
		}
	}
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if !strings.Contains(string(text), row) {
			t.Errorf("docs/operations.md lacks the row\n%s", row)
		}
	}
}

// A Node that is made anew, or that somebody has edited, is told again although nothing has changed here.
func TestNodeIsToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
		v := &views{view: &agent.View{ConfigHash: "h1"}, changed: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- report.Node(ctx, client, "n1", v, nil) }()
		told := func() bool {
			synctest.Wait()
			n, err := client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return n.Annotations[report.HashAnnotation] == "h1" && len(n.Status.Conditions) == 2
		}
		if !told() {
			t.Error("not told")
		}
		if err := client.CoreV1().Nodes().Delete(t.Context(), "n1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Minute)
		if !told() {
			t.Error("the new Node is not told")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
