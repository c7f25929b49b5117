// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package report

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
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
		if p.GPU != "" && (p.Reason == agent.ReasonGPUUnhealthy || p.Reason == agent.ReasonGPUFault) { // changes of health are told as such
			continue
		}
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

// event is what an Event says.
type event struct {
	kind, reason, about, note string
	// key makes a second attempt to tell the same in this process no second Event; "" = none is made.
	key string
}

// create tells of a Node. The API keeps Events of objects without a namespace in the default one, and clients look for them, like for
// the kubelet's own, under a UID that is the name.
func create(ctx context.Context, client kubernetes.Interface, name string, say event) error {
	return createAbout(ctx, client, name, corev1.ObjectReference{Kind: "Node", Name: name, UID: types.UID(name), APIVersion: "v1"}, say)
}

// born tells Events of this process from those of others.
var born = time.Now().UnixNano()

// eventName fits what the API takes for a name; what makes it unique comes last.
func eventName(about, unique string) string {
	room := max(0, validation.DNS1123SubdomainMaxLength-len(unique)-len("."))
	return strings.TrimRight(about[:min(len(about), room)], ".-") + "." + unique
}

func createAbout(ctx context.Context, client kubernetes.Interface, node string, regarding corev1.ObjectReference, say event) error {
	now := metav1.NowMicro()
	namespace, unique := cmp.Or(regarding.Namespace, metav1.NamespaceDefault), fmt.Sprintf("%x", now.UnixNano())
	if say.key != "" {
		unique = fmt.Sprintf("%x.%s", born, say.key)
	}
	e := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name:      eventName(regarding.Name, strings.ToLower(say.reason)+say.about+"."+unique),
			Namespace: namespace,
		},
		EventTime:           now,
		ReportingController: "gpuslice.dev/agent", ReportingInstance: node,
		Action: "Report", Reason: say.reason, Note: clip(say.note), Type: say.kind, Regarding: regarding,
	}
	_, err := client.EventsV1().Events(namespace).Create(ctx, e, metav1.CreateOptions{})
	if say.key != "" && apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("create event on %s %s: %w", strings.ToLower(regarding.Kind), regarding.Name, err)
	}
	return nil
}
