// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"maps"
	"slices"
)

// SetProblems says what a part of this process around the agent could not do; it replaces what that part said before.
func (a *Agent) SetProblems(part string, ps []Problem) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if slices.Equal(a.input.parts[part], ps) {
		return
	}
	parts := maps.Clone(a.input.parts) // the one before may be in use
	if parts == nil {
		parts = map[string][]Problem{}
	}
	parts[part] = slices.Clone(ps)
	a.input.parts = parts
	a.Kick()
}

// partProblems lists what all parts say.
func (i input) partProblems() []Problem {
	all := []Problem{}
	for _, part := range slices.Sorted(maps.Keys(i.parts)) {
		all = append(all, i.parts[part]...)
	}
	return all
}
