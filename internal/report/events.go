// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package report

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"gpuslice/internal/agent"
)

// quiet is how long a problem that comes and goes is told once.
const quiet = 10 * time.Minute

// Events tells every problem once, when it appears, as an Event on the Node, until ctx ends. The text is that of the condition.
func Events(ctx context.Context, client kubernetes.Interface, name string, a Agent) error {
	told := map[agent.Problem]time.Time{} // zero: it is there and was told
	for {
		view, changed := a.View()
		if view != nil {
			for _, p := range due(told, view.Problems, time.Now()) {
				if err := emit(ctx, client, name, p); err != nil {
					klog.FromContext(ctx).Error(err, "Event not written; trying again with the next change", "problem", p.String())
					delete(told, p)
				}
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// due picks the problems that are new, and notes when those went that are gone.
func due(told map[agent.Problem]time.Time, now []agent.Problem, at time.Time) []agent.Problem {
	present := map[agent.Problem]bool{}
	var fresh []agent.Problem
	for _, p := range now {
		present[p] = true
		if gone, known := told[p]; !known || !gone.IsZero() && at.Sub(gone) > quiet {
			fresh = append(fresh, p)
		}
		told[p] = time.Time{}
	}
	maps.DeleteFunc(told, func(_ agent.Problem, gone time.Time) bool { return !gone.IsZero() && at.Sub(gone) > quiet })
	for p, gone := range told {
		if !present[p] && gone.IsZero() {
			told[p] = at
		}
	}
	return fresh
}

func emit(ctx context.Context, client kubernetes.Interface, name string, p agent.Problem) error {
	kind := corev1.EventTypeWarning
	if p.IsInformation() {
		kind = corev1.EventTypeNormal
	}
	return create(ctx, client, name, event{kind: kind, reason: string(p.Reason), about: p.GPU, note: p.String()})
}

// event is what an Event on a Node says.
type event struct{ kind, reason, about, note string }

func create(ctx context.Context, client kubernetes.Interface, name string, say event) error {
	now := metav1.NowMicro()
	e := &eventsv1.Event{
		// The API keeps Events of objects without a namespace in this one.
		ObjectMeta: metav1.ObjectMeta{
			Name:      fmt.Sprintf("%s.%s%s.%x", name, strings.ToLower(say.reason), say.about, now.UnixNano()),
			Namespace: metav1.NamespaceDefault,
		},
		EventTime:           now,
		ReportingController: "gpuslice.dev/agent", ReportingInstance: name,
		Action: "Report", Reason: say.reason, Note: clip(say.note), Type: say.kind,
		// Like the kubelet's own, for which clients look under a UID that is the name.
		Regarding: corev1.ObjectReference{Kind: "Node", Name: name, UID: types.UID(name), APIVersion: "v1"},
	}
	if _, err := client.EventsV1().Events(metav1.NamespaceDefault).Create(ctx, e, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create event on node %s: %w", name, err)
	}
	return nil
}
