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
	// ClearAnnotation says that the faults of GPUs are over: UUIDs with commas, each followed once;
	// "<uuid>=2" is another word.
	ClearAnnotation = "gpuslice.dev/clear-fault"
)

// word is what people say of GPUs, by UUID.
type word struct{ reported, cleared map[string]string }

// readAnnotations takes what it can, and says what is wrong with the rest.
func readAnnotations(annotations map[string]string, gpus []devices.GPU) (word, []Problem) {
	w, problems := word{map[string]string{}, map[string]string{}}, []Problem{}
	bad := []string{}
	for entry := range strings.SplitSeq(annotations[FaultAnnotation], ",") {
		name, reason, _ := strings.Cut(entry, "=")
		uuid := uuidOf(gpus, name)
		if reason = strings.TrimSpace(reason); uuid != "" && reason != "" {
			w.reported[uuid] = reason
		} else if strings.TrimSpace(entry) != "" {
			bad = append(bad, entry)
		}
	}
	problems = append(problems, misread(FaultAnnotation, "<uuid>=<reason>", bad, gpus)...)
	bad = nil
	for entry := range strings.SplitSeq(annotations[ClearAnnotation], ",") {
		name, _, _ := strings.Cut(entry, "=") // what follows only makes one word another than the last
		if uuid := uuidOf(gpus, name); uuid != "" {
			w.cleared[uuid] = hash([]byte(strings.TrimSpace(entry)))
		} else if strings.TrimSpace(entry) != "" {
			bad = append(bad, entry)
		}
	}
	return w, append(problems, misread(ClearAnnotation, "<uuid>", bad, gpus)...)
}

// uuidOf is the UUID if a GPU here has it, else "". All other names of a GPU can become another's, and a word outlives that.
func uuidOf(gpus []devices.GPU, name string) string {
	name = strings.TrimSpace(name)
	if name == "" || !slices.ContainsFunc(gpus, func(g devices.GPU) bool { return g.UUID == name }) {
		return ""
	}
	return name
}

// maxMisread bounds how many entries are named: an annotation may be long.
const maxMisread = 3

// misread is one problem for all that an annotation says in vain.
func misread(key, form string, bad []string, gpus []devices.GPU) []Problem {
	if len(bad) == 0 {
		return nil
	}
	quoted := []string{}
	for _, entry := range bad[:min(maxMisread, len(bad))] {
		quoted = append(quoted, fmt.Sprintf("%q", clipName(strings.TrimSpace(entry))))
	}
	text := strings.Join(quoted, ", ")
	if more := len(bad) - maxMisread; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return []Problem{{Reason: ReasonAnnotationInvalid, Message: fmt.Sprintf(
		"annotation %s: %s is not %s of a GPU that is here; there are %s", key, text, form, uuidsOf(gpus))}}
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
