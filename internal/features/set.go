// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package features

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Lines are labels as text, one "key=value" a line in the order of the keys, so that two of them can be compared.
type Lines string

// All goes through the labels.
func (l Lines) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for line := range strings.Lines(string(l)) {
			key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			if !yield(key, value) {
				return
			}
		}
	}
}

// Set is the labels of a node.
type Set struct {
	Inventory Lines // what follows from which GPUs there are
	Others    Lines
	// Partial says that some GPU has not said yet what it is: then the inventory is not that of the whole node.
	Partial bool
}

// Over returns the labels that a Node is to have which has some of ours already. While the set is partial none of them goes, and
// what hardware there is stays as it was: GPUs that do not answer are not gone.
func (s Set) Over(ours map[string]string) map[string]string {
	want := map[string]string{}
	if s.Partial {
		maps.Copy(want, ours)
	}
	maps.Insert(want, s.Others.All())
	for key, value := range s.Inventory.All() {
		if _, has := want[key]; !has {
			want[key] = value
		}
	}
	if s.Partial && ours[ModeLabel] == mixed { // the GPU that makes it mixed may be the one that does not answer
		want[ModeLabel] = mixed
	}
	return want
}

// labels are put together here; a label whose key or value the API server would refuse is left out alone.
type labels map[string]string

func (l labels) put(key, value string) {
	if len(validation.IsQualifiedName(key)) == 0 && len(validation.IsValidLabelValue(value)) == 0 {
		l[key] = value
	}
}

// known leaves a value out that the driver does not say.
func (l labels) known(key, value string) {
	if value != "" {
		l.put(key, value)
	}
}

func (l labels) lines() Lines {
	text := strings.Builder{}
	for _, key := range slices.Sorted(maps.Keys(l)) {
		text.WriteString(key + "=" + l[key] + "\n")
	}
	return Lines(text.String())
}
