// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package report

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"gpuslice/internal/agent"
	"gpuslice/internal/config/nvidia"
)

// States of the config that the label nvidia.com/mig.config names, in mig-manager's words.
const (
	Success   = "success"
	Pending   = "pending"
	Rebooting = "rebooting"
	Failed    = "failed"
)

// order of states: a node is as far as the GPU that is least far.
var order = []string{Success, Pending, Rebooting, Failed}

// MIGState is how far that config has come, and why it has come no further; empty while nothing is asked for.
type MIGState struct{ State, Reason string }

// stateOf is what a problem of a GPU means for it while the plan of the GPU is not done.
var stateOf = map[agent.Reason]string{
	agent.ReasonImpossible: Failed, agent.ReasonNotSupportedYet: Failed, agent.ReasonApplyFailed: Failed, agent.ReasonNotAsPlanned: Failed,
	agent.ReasonGPUFault: Failed, agent.ReasonResetRequired: Failed, agent.ReasonRebootRequired: Rebooting,
	agent.ReasonBlocked: Pending, agent.ReasonPaused: Pending, agent.ReasonReleased: Pending,
}

// migState derives it from nothing but what is there and wanted now, so that no way through an error leaves an old state (M10).
func migState(v *agent.View) MIGState {
	switch {
	case v.MIGConfig.Asked == "":
		return MIGState{}
	case v.MIGConfig.Fault != "":
		return MIGState{Failed, clip(v.MIGConfig.Fault)}
	}
	if len(v.Targets) == 0 {
		return MIGState{Pending, clip(cmp.Or(problemsOf(v, ""), "no GPU has been read yet"))}
	}
	worst, follow := MIGState{State: Success}, false
	for _, t := range v.Targets {
		unread := t.GPU.UUID == "" // what it is, and so whether the config is for it, is not known
		follow = follow || t.ByMIG
		if !t.ByMIG && !unread {
			continue
		}
		if s := targetState(v, t); slices.Index(order, s.State) > slices.Index(order, worst.State) {
			worst = s
		}
	}
	if !follow && worst.State == Success {
		return MIGState{Failed, fmt.Sprintf("config %s is followed by none of the %d GPUs here: rules of the SharingConfig are for all that it would be for", v.MIGConfig.Asked, len(v.Targets))}
	}
	return worst
}

// problemsOf is what is wrong with a GPU, or with the node for "".
func problemsOf(v *agent.View, gpu string) string {
	lines := []string{}
	for _, p := range v.Problems {
		if p.GPU == gpu && !p.IsInformation() {
			lines = append(lines, p.String())
		}
	}
	return strings.Join(lines, "\n")
}

func targetState(v *agent.View, t agent.Target) MIGState {
	undone := t.Kept || t.GPU.Fault != nil || t.GPU.Released != "" || !t.Plan.IsEmpty()
	if !undone {
		return MIGState{State: Success}
	}
	s := MIGState{State: Pending, Reason: t.Plan.String()}
	reasons := []string{}
	for _, p := range v.Problems {
		state, counts := stateOf[p.Reason]
		if p.GPU != t.GPU.Name() || !counts {
			continue
		}
		reasons = append(reasons, p.String())
		if slices.Index(order, state) > slices.Index(order, s.State) {
			s.State = state
		}
	}
	s.Reason = clip(cmp.Or(strings.Join(reasons, "\n"), s.Reason))
	return s
}

// tellMIG writes an Event when there is news of the config that the label nvidia.com/mig.config names. The label of its own is
// written before.
func tellMIG(ctx context.Context, client kubernetes.Interface, node *corev1.Node, told, s MIGState) error {
	has := node.Labels[nvidia.MIGPartedStateLabel]
	if s.State == "" || has == s.State && (told.State == "" || told == s) {
		return nil
	}
	return create(ctx, client, node.Name, stateEvent(node, s))
}

// eventReason is MIGConfigSuccess for success.
func eventReason(state string) string {
	return "MIGConfig" + strings.ToUpper(state[:1]) + state[1:]
}

func stateEvent(node *corev1.Node, s MIGState) event {
	e := event{kind: corev1.EventTypeNormal, reason: eventReason(s.State), note: s.Reason}
	if s.State == Failed || s.State == Rebooting {
		e.kind = corev1.EventTypeWarning
	}
	if e.note == "" {
		e.note = "every GPU is as " + node.Labels[nvidia.MIGPartedLabel] + " says"
	}
	return e
}
