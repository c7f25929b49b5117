// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// rememberPolicies keeps what is in force on each GPU, for GPUs that cannot follow a later config, also after a restart (P5, P6).
func (a *Agent) rememberPolicies(targets []Target) error {
	for _, t := range targets {
		switch {
		case t.Kept:
		case t.Policy.Managed:
			a.before.Policies[t.GPU.PCI] = t.Policy
		default:
			delete(a.before.Policies, t.GPU.PCI)
		}
	}
	text, err := json.Marshal(a.before.Policies)
	if err == nil && !bytes.Equal(text, a.keptPolicies) {
		err = a.store.SavePolicies(text)
	}
	if err != nil {
		return fmt.Errorf("keep policies: %w", err)
	}
	a.keptPolicies = text
	return nil
}

// rememberResources keeps the names before anything is offered under them.
func (a *Agent) rememberResources(names []string) error {
	all := slices.Clone(a.before.Resources)
	for _, name := range names {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	if len(all) == len(a.before.Resources) {
		return nil
	}
	if err := a.store.SaveResources(all); err != nil {
		return fmt.Errorf("keep resource names: %w", err)
	}
	a.before.Resources = all
	return nil
}
