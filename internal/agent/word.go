// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"fmt"
	"slices"
	"strings"

	"gpuslice/pkg/devices"
)

// Fault annotations on the Node.
const (
	// FaultAnnotation reports GPUs as faulty: "<uuid>=<reason>", with commas.
	FaultAnnotation = "gpuslice.dev/fault"
	// ClearAnnotation says that the faults of GPUs are over: UUIDs with commas, each followed once until the value changes.
	ClearAnnotation = "gpuslice.dev/clear-fault"
)

// word is what people say of GPUs, by UUID.
type word struct{ reported, cleared map[string]string }

// readAnnotations takes what it can, and says what is wrong with the rest.
func readAnnotations(annotations map[string]string, gpus []devices.GPU) (word, []Problem) {
	w, problems := word{map[string]string{}, map[string]string{}}, []Problem{}
	find := func(key, name string) (uuid string) {
		if i := slices.IndexFunc(gpus, func(g devices.GPU) bool { return g.UUID != "" && isCalled(g, name) }); i >= 0 {
			return gpus[i].UUID
		}
		problems = append(problems, Problem{Reason: ReasonAnnotationInvalid, Message: fmt.Sprintf(
			"annotation %s: no GPU is called %q; there are %s", key, clipName(name), uuidsOf(gpus))})
		return ""
	}
	for entry := range strings.SplitSeq(annotations[FaultAnnotation], ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		name, reason, found := strings.Cut(entry, "=")
		if reason = strings.TrimSpace(reason); !found || reason == "" {
			problems = append(problems, Problem{Reason: ReasonAnnotationInvalid, Message: fmt.Sprintf(
				"annotation %s: %q is not of the form <uuid>=<reason>", FaultAnnotation, clipName(entry))})
			continue
		}
		if uuid := find(FaultAnnotation, strings.TrimSpace(name)); uuid != "" {
			w.reported[uuid] = reason
		}
	}
	for name := range strings.SplitSeq(annotations[ClearAnnotation], ",") {
		name, _, _ = strings.Cut(strings.TrimSpace(name), "=") // what follows only makes one word another than the last
		if name == "" {
			continue
		}
		if uuid := find(ClearAnnotation, name); uuid != "" {
			w.cleared[uuid] = annotations[ClearAnnotation]
		}
	}
	return w, problems
}

func clipName(name string) string {
	return strings.ToValidUTF8(name[:min(len(name), 80)], "?")
}

func uuidsOf(gpus []devices.GPU) string {
	names := []string{}
	for _, g := range gpus {
		names = append(names, g.UUID+" ("+g.Name()+")")
	}
	return strings.Join(names, ", ")
}
