// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package report

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"gpuslice/internal/agent"
	"gpuslice/internal/features"
)

// Agent is what is reported about.
type Agent interface {
	View() (*agent.View, <-chan struct{})
	// SetProblems tells what a part around the agent could not do.
	SetProblems(part string, ps []agent.Problem)
}

// fieldManager is who writes, for the API server.
const fieldManager = "gpuslice"

// retryEvery spaces out attempts while the API server is away.
const retryEvery = 2 * time.Second

// tellAgain is how often a Node is looked at although nothing has changed here: it may have been made anew, or edited.
const tellAgain = time.Minute

// tellEdited is how long after an edit of the Node's labels it is looked at: who writes against us is not raced.
const tellEdited = 5 * time.Second

// Node keeps condition, annotations and labels of a Node in step with the view until ctx ends.
func Node(ctx context.Context, client kubernetes.Interface, name string, a Agent, hosts Hosts) error {
	t := teller{client: client, name: name, agent: a, hosts: hosts}
	again := time.NewTicker(tellAgain)
	defer again.Stop()
	for {
		view, changed := a.View()
		t.see(view)
		retry := t.look(ctx, view)
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-retry:
		case <-again.C:
			t.forget()
		case <-t.edited:
			t.forget()
			t.edited = nil
		}
	}
}

// teller is what was told last, and what went wrong with it.
type teller struct {
	client kubernetes.Interface
	name   string
	agent  Agent
	hosts  Hosts
	told   Facts
	said   string // why it could not be told
	labels map[string]string
	edited <-chan time.Time
}

// forget makes the next look tell everything again.
func (t *teller) forget() { t.told = Facts{MIG: t.told.MIG} }

// see notices that somebody has edited the labels of the Node.
func (t *teller) see(view *agent.View) {
	if view == nil || maps.Equal(t.labels, view.Labels) {
		return
	}
	if t.labels = view.Labels; t.edited == nil {
		t.edited = time.After(tellEdited)
	}
}

// look tells what is new; the channel fires when it is to be tried again.
func (t *teller) look(ctx context.Context, view *agent.View) (retry <-chan time.Time) {
	facts := FactsOf(view)
	facts.Features = features.Of(view, t.hosts.of(view))
	if facts == t.told {
		return nil
	}
	err := tell(ctx, t.client, t.name, t.told, facts)
	if err == nil || isHeld(err) { // what others hold is tried again with everything else, every so often
		t.told = facts
	} else {
		retry = time.After(retryEvery)
	}
	t.said = complain(ctx, err, t.said)
	t.agent.SetProblems("labels", conflicts(err))
	return retry
}

// complain logs an error once, and returns what was said last.
func complain(ctx context.Context, err error, said string) string {
	if err == nil {
		return ""
	}
	if said != err.Error() {
		klog.FromContext(ctx).Error(err, "Node not told; trying again")
	}
	return err.Error()
}

func tell(ctx context.Context, client kubernetes.Interface, name string, told, f Facts) error {
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get node %s: %w", name, err)
	}
	if err := tellAnnotations(ctx, client, node, f); err != nil {
		return err
	}
	if news := conditionsOf(node, f); len(news) > 0 {
		patch := map[string]any{"status": map[string]any{"conditions": news}}
		if err := apply(ctx, client, name, patch, "status"); err != nil {
			return err
		}
	}
	if f.Reason == reasonStarting {
		return nil // labels of an earlier process stay until it is known better
	}
	held := tellLabels(ctx, client, node, f)
	if held != nil && (!isHeld(held) || holdsState(held)) {
		return held
	}
	if err := tellMIG(ctx, client, node, told.MIG, f.MIG); err != nil {
		return err
	}
	return held
}

// tellAnnotations leaves the count of an earlier process until there is another.
func tellAnnotations(ctx context.Context, client kubernetes.Interface, node *corev1.Node, f Facts) error {
	want := map[string]any{}
	if f.Hash != node.Annotations[HashAnnotation] {
		want[HashAnnotation] = orNull(f.Hash)
	}
	if n := f.Health.Unhealthy; n != "" && n != node.Annotations[UnhealthyAnnotation] {
		want[UnhealthyAnnotation] = n
	}
	if len(want) == 0 {
		return nil
	}
	return apply(ctx, client, node.Name, map[string]any{"metadata": map[string]any{"annotations": want}}, "")
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// conditionsOf returns the conditions to write; none where the Node says them already.
func conditionsOf(node *corev1.Node, f Facts) []corev1.NodeCondition {
	news := []corev1.NodeCondition{}
	for _, want := range []corev1.NodeCondition{
		{Type: ConditionType, Status: f.Status, Reason: f.Reason, Message: f.Message},
		{Type: HealthConditionType, Status: f.Health.Status, Reason: f.Health.Reason, Message: f.Health.Message},
	} {
		if c := conditionOf(node, want); c != nil {
			news = append(news, *c)
		}
	}
	return news
}

// conditionOf returns the condition to write, or nil when the Node says it already.
func conditionOf(node *corev1.Node, want corev1.NodeCondition) *corev1.NodeCondition {
	now := metav1.Now()
	want.LastHeartbeatTime, want.LastTransitionTime = now, now
	for _, old := range node.Status.Conditions {
		if old.Type == want.Type && old.Status == want.Status {
			want.LastTransitionTime = old.LastTransitionTime
			if old.Reason == want.Reason && old.Message == want.Message {
				return nil
			}
		}
	}
	return &want
}

func apply(ctx context.Context, client kubernetes.Interface, name string, patch any, subresource string) error {
	text, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encode patch of node %s: %w", name, err)
	}
	subresources := []string{}
	if subresource != "" {
		subresources = append(subresources, subresource)
	}
	if _, err := client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, text, metav1.PatchOptions{FieldManager: fieldManager}, subresources...); err != nil {
		return fmt.Errorf("patch node %s %s: %w", name, subresource, err)
	}
	return nil
}
