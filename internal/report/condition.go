// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package report

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"gpuslice/internal/agent"
	"gpuslice/internal/features"
	"gpuslice/pkg/devices"
)

// Names on the Node.
const (
	ConditionType  = "GPUSharingReady"
	HashAnnotation = "gpuslice.dev/config-hash"
)

// ReasonAsConfigured is the reason of a condition without problems.
const ReasonAsConfigured = "AsConfigured"

// reasonStarting is the reason while nothing is known of the node.
const reasonStarting = "Starting"

// mustKnow are the reasons with which nothing is wrong, and users must know all the same.
var mustKnow = []agent.Reason{agent.ReasonMemoryNotLimited, agent.ReasonEnvInjectionOpen, agent.ReasonLabelConflict}

// maxMessage bounds the condition's message; a Node is read by everyone all the time.
const maxMessage = 1024

// Facts is what is reported, as a value that can be compared.
type Facts struct {
	Status  corev1.ConditionStatus
	Reason  string
	Message string
	Hash    string
	MIG     MIGState
	Memory  agent.MemoryLimit
	Unified bool // some GPU works in the host's memory
	Health  HealthFacts
	// Features are the labels that follow from the GPUs; FactsOf leaves them to who knows the host.
	Features features.Set
}

// FactsOf turns a view into what is reported. It is pure.
func FactsOf(v *agent.View) Facts {
	if v == nil {
		return Facts{
			Status: corev1.ConditionUnknown, Reason: reasonStarting, Message: "the layout of this node is not verified yet",
			Health: HealthFacts{Status: corev1.ConditionUnknown, Reason: reasonStarting, Message: "no GPU has been read yet"},
		}
	}
	f := Facts{
		Status: corev1.ConditionTrue, Reason: ReasonAsConfigured, Message: "every GPU is offered as configured",
		Hash: v.ConfigHash, MIG: migState(v), Memory: v.MemoryLimit, Unified: hasUnified(v), Health: healthOf(v),
	}
	lines := []string{}
	for _, p := range v.Problems {
		if p.IsInformation() {
			if slices.Contains(mustKnow, p.Reason) {
				f.Message += "\n" + p.String()
			}
			continue
		}
		if len(lines) == 0 {
			f.Status, f.Reason = corev1.ConditionFalse, string(p.Reason)
		}
		lines = append(lines, p.String())
	}
	if len(lines) > 0 {
		f.Message = strings.Join(lines, "\n")
	}
	f.Message = clip(f.Message)
	return f
}

func hasUnified(v *agent.View) bool {
	return slices.ContainsFunc(v.Node.GPUs, func(g devices.GPU) bool { return g.Unified && g.Unsupported == nil })
}

func clip(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage-len(" …")], "") + " …"
}
