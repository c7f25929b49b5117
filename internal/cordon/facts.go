// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package cordon

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// What an agent writes on its Node.
const (
	// HealthCondition is True while all GPUs are well, False while some are not, Unknown while nothing is known.
	HealthCondition corev1.NodeConditionType = "GPUHealthy"
	// CountAnnotation says how many GPUs are not well, and of how many: "3/8".
	CountAnnotation = "gpuslice.dev/gpus-unhealthy"
)

// What is written here.
const (
	// MarkAnnotation says that a cordon was made here, and why.
	MarkAnnotation = "gpuslice.dev/cordoned"
	// OverruledAnnotation says that such a cordon was taken away by hand; it stands until the GPUs have been well once.
	OverruledAnnotation = "gpuslice.dev/cordon-overruled"
)

// Facts is what a Node says.
type Facts struct {
	Name string
	// GPUs of the node and how many of them are not well; 0 of 0 unless the annotation can be read.
	GPUs, Unhealthy int
	// Known is false when condition and annotation are not there, not of one mind, or old.
	Known         bool
	Unschedulable bool
	Marked        bool
	Overruled     bool
}

// FactsOf reads a Node. It is pure.
func FactsOf(n *corev1.Node) Facts {
	f := Facts{Name: n.Name, Unschedulable: n.Spec.Unschedulable}
	_, f.Marked = n.Annotations[MarkAnnotation]
	_, f.Overruled = n.Annotations[OverruledAnnotation]
	f.Unhealthy, f.GPUs = parseCount(n.Annotations[CountAnnotation])
	healthy := statusOf(n, HealthCondition)
	if statusOf(n, corev1.NodeReady) == corev1.ConditionUnknown {
		healthy = corev1.ConditionUnknown // the node does not answer: what it said last is old
	}
	// The two are written one after the other: where they differ, one is about to change.
	f.Known = f.GPUs > 0 && (healthy == corev1.ConditionTrue && f.Unhealthy == 0 || healthy == corev1.ConditionFalse && f.Unhealthy > 0)
	return f
}

func statusOf(n *corev1.Node, kind corev1.NodeConditionType) corev1.ConditionStatus {
	for _, c := range n.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

// parseCount reads "3/8"; anything else is 0 of 0.
func parseCount(text string) (some, all int) {
	first, second, _ := strings.Cut(text, "/")
	some, err := strconv.Atoi(first)
	all, err2 := strconv.Atoi(second)
	if err != nil || err2 != nil || some < 0 || some > all || all > maxAmount || text != strconv.Itoa(some)+"/"+strconv.Itoa(all) {
		return 0, 0
	}
	return some, all
}
