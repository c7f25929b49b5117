// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package cordon

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// fieldManager is who writes, for the API server.
const fieldManager = "gpuslice-cordon"

// patchOf is the merge patch of what is decided: cordon and mark come and go together, for one version of the Node only.
func patchOf(d Decision, version string) ([]byte, error) {
	annotations := map[string]any{MarkAnnotation: nil, OverruledAnnotation: nil}
	metadata := map[string]any{"resourceVersion": version, "annotations": annotations}
	patch := map[string]any{"metadata": metadata}
	switch d.Do {
	case Cordon:
		annotations[MarkAnnotation] = d.Why
		patch["spec"] = map[string]any{"unschedulable": true}
	case Uncordon:
		patch["spec"] = map[string]any{"unschedulable": nil}
	case Overrule:
		annotations[OverruledAnnotation] = d.Why
	case Forget:
	default:
		return nil, fmt.Errorf("%s is nothing to write", d.Do)
	}
	return json.Marshal(patch)
}

// Reasons of Events on a Node.
const (
	ReasonCordoned   = "GPUNodeCordoned"
	ReasonUncordoned = "GPUNodeUncordoned"
	ReasonRefused    = "GPUNodeNotCordoned"
	ReasonOverruled  = "GPUCordonOverruled"
)

// event is what is said about an action.
type event struct{ kind, reason, action string }

var events = map[Action]event{
	Cordon:   {corev1.EventTypeWarning, ReasonCordoned, "Cordon"},
	Uncordon: {corev1.EventTypeNormal, ReasonUncordoned, "Uncordon"},
	Refuse:   {corev1.EventTypeWarning, ReasonRefused, "Cordon"},
	Overrule: {corev1.EventTypeNormal, ReasonOverruled, "Overrule"},
}

// say writes an Event on the Node. It is said once: what is so stands on the Node itself.
func (t *term) say(ctx context.Context, d Decision, e event) {
	now := metav1.NowMicro()
	_, err := t.client.EventsV1().Events(metav1.NamespaceDefault).Create(ctx, &eventsv1.Event{
		// The API keeps Events of objects without a namespace in this one.
		ObjectMeta: metav1.ObjectMeta{
			Name:      fmt.Sprintf("%s.%s.%x", d.Node, strings.ToLower(e.reason), now.UnixNano()),
			Namespace: metav1.NamespaceDefault,
		},
		EventTime:           now,
		ReportingController: "gpuslice.dev/cordon", ReportingInstance: t.identity,
		Action: e.action, Reason: e.reason, Note: d.Why, Type: e.kind,
		// Like the kubelet's own, for which clients look under a UID that is the name.
		Regarding: corev1.ObjectReference{Kind: "Node", Name: d.Node, UID: types.UID(d.Node), APIVersion: "v1"},
	}, metav1.CreateOptions{})
	if err != nil {
		klog.FromContext(ctx).Error(err, "Event not written", "node", d.Node, "reason", e.reason, "note", d.Why)
	}
}
