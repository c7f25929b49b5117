// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package report

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"gpuslice/internal/agent"
)

// What the Node says of the health of its GPUs.
const (
	HealthConditionType = "GPUHealthy"
	// UnhealthyAnnotation counts GPUs that are unhealthy as a whole or in part, of all: "3/8".
	UnhealthyAnnotation = "gpuslice.dev/gpus-unhealthy"
)

// Reasons of the condition.
const (
	reasonAllHealthy = "AllHealthy"
	reasonUnhealthy  = "GPUUnhealthy"
	reasonNoGPU      = "NoGPU"
)

// HealthFacts is what is reported of the health of a node's GPUs, as a value that can be compared.
type HealthFacts struct {
	Status    corev1.ConditionStatus
	Reason    string
	Message   string
	Unhealthy string // "3/8"; empty: nothing is known yet
}

// healthOf is a pure function.
func healthOf(v *agent.View) HealthFacts {
	sick, all, polled := 0, 0, []string{}
	for _, t := range v.Targets {
		if t.GPU.Unsupported != nil {
			continue
		}
		all++
		if t.IsUnhealthy() {
			sick++
		}
		if t.GPU.Polled {
			polled = append(polled, t.GPU.Name())
		}
	}
	f := HealthFacts{
		Status: corev1.ConditionTrue, Reason: reasonAllHealthy, Unhealthy: fmt.Sprintf("%d/%d", sick, all),
		Message: fmt.Sprintf("%d of %d GPUs are unhealthy", sick, all),
	}
	switch {
	case all == 0: // which is no statement about GPUs
		f.Status, f.Reason, f.Message = corev1.ConditionUnknown, reasonNoGPU, "no GPU is known"
	case sick > 0:
		f.Status, f.Reason = corev1.ConditionFalse, reasonUnhealthy
	}
	for _, p := range v.Problems {
		if p.Reason == agent.ReasonGPUUnhealthy || p.Reason == agent.ReasonGPUFault || p.Reason == agent.ReasonAccessLost {
			f.Message += "\n" + strings.TrimPrefix(p.GPU+": "+p.Message, ": ")
		}
	}
	if len(polled) > 0 {
		f.Message += "\nno events from the driver, read every now and then: " + strings.Join(polled, ", ")
	}
	f.Message = clip(f.Message)
	return f
}

// Reasons of Events about the health of GPUs, on the Node and on the pods that hold what it is about.
const (
	EventUnhealthy = "GPUUnhealthy"
	EventHealthy   = "GPUHealthy"
	EventXIDs      = "GPUErrors"
)

// healthEvents is what becomes of a change.
var healthEvents = map[agent.HealthKind]struct{ kind, reason string }{
	agent.BecameUnhealthy: {corev1.EventTypeWarning, EventUnhealthy},
	agent.BecameHealthy:   {corev1.EventTypeNormal, EventHealthy},
	agent.XIDsNoted:       {corev1.EventTypeWarning, EventXIDs},
}

// HealthDocs documents the Events by their reason.
func HealthDocs() []StateDoc {
	return []StateDoc{
		{EventUnhealthy, "Something of a GPU became unhealthy, or what it needs became more; the message says which devices, why, and what helps. Pods that hold it go on, as far as they can."},
		{EventHealthy, "It is healthy again, by the evidence that the message names, and given out again."},
		{EventXIDs, "Errors that applications made (XIDs) were reported. Nothing becomes unhealthy. What comes within a minute is gathered into one Event."},
	}
}

// Health tells every change of health once, as an Event on the Node and one on each pod concerned, until ctx ends.
func Health(ctx context.Context, client kubernetes.Interface, name string, a Agent) error {
	told, said := uint64(0), ""
	for {
		view, changed := a.View()
		var retry <-chan time.Time
		if view != nil {
			for _, c := range view.Changes {
				if c.Seq <= told {
					continue
				}
				if err := tellChange(ctx, client, name, c); err != nil {
					if retry = time.After(retryEvery); said != err.Error() {
						said = err.Error()
						klog.FromContext(ctx).Error(err, "Change of health not told; trying again", "change", c.Text)
					}
					break
				}
				told, said = c.Seq, ""
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-retry:
		}
	}
}

// tellChange tells the pods first: a Node whose Event is there has no pod left to be told.
func tellChange(ctx context.Context, client kubernetes.Interface, node string, c agent.HealthChange) error {
	e, known := healthEvents[c.Kind]
	if !known {
		return nil
	}
	say := event{kind: e.kind, reason: e.reason, about: c.GPU, note: c.Text, key: fmt.Sprintf("%d", c.Seq)}
	errs := []error{}
	for _, holder := range c.Holders {
		pods, err := podsOf(ctx, client, holder)
		errs = append(errs, err)
		for _, pod := range pods {
			errs = append(errs, tellPod(ctx, client, node, pod, say))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return create(ctx, client, node, say)
}

// podsOf is the pod that a holder names, or those that a claim is reserved for; of a claim that is gone there are none.
func podsOf(ctx context.Context, client kubernetes.Interface, holder string) (pods []string, err error) {
	claim, isClaim := strings.CutPrefix(holder, agent.ClaimPrefix)
	if !isClaim {
		return []string{holder}, nil
	}
	namespace, name, _ := strings.Cut(claim, "/")
	c, err := client.ResourceV1().ResourceClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err): // nobody can be told
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get %s: %w", holder, err)
	}
	for _, r := range c.Status.ReservedFor {
		if r.APIGroup == "" && r.Resource == "pods" {
			pods = append(pods, namespace+"/"+r.Name)
		}
	}
	return pods, nil
}

// tellPod says it to a pod that is still there; clients find its Events by its UID.
func tellPod(ctx context.Context, client kubernetes.Interface, node, pod string, say event) error {
	namespace, name, _ := strings.Cut(pod, "/")
	p, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsForbidden(err): // it is told without, as far as clients find it
		p = nil
	case err != nil:
		return fmt.Errorf("get pod %s: %w", pod, err)
	}
	regarding := corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: name, APIVersion: "v1"}
	if p != nil {
		regarding.UID = p.UID
	}
	err = createAbout(ctx, client, node, regarding, say)
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
		klog.FromContext(ctx).V(2).Info("A pod cannot be told of its GPU", "pod", pod, "cause", err.Error())
		return nil // its namespace is going, say: all others must not wait for that
	}
	return err
}
