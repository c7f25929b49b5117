// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"fmt"
	"maps"
	"strings"

	"gpuslice/internal/config"
)

// input is what the admin asked for last.
type input struct {
	config   Config
	hash     string
	labels   map[string]string
	problems []Problem
	imports  map[Import]imported
	kept     map[Import]bool // there is a last good config of an earlier run
	// parts is what the parts of this process around the agent say, by part.
	parts map[string][]Problem
	// runtime is the node's container runtime with its version, as the kubelet tells it; "" = not known.
	runtime string
	// annotations holds what asks something of the agent.
	annotations map[string]string
	// hasConfig and hasLabels say that somebody has spoken, be it an earlier run.
	hasConfig bool
	hasLabels bool
}

// loadLastConfig starts with the config that was in force before, until a source says otherwise (P5).
func (a *Agent) loadLastConfig() error {
	text, err := a.store.Config()
	if err != nil || text == nil {
		return err
	}
	c, err := config.Load("last good config", text)
	if err != nil {
		a.input.problems = append(a.input.problems, Problem{Reason: ReasonConfigInvalid, Message: err.Error()})
		return nil
	}
	a.input.config.Sharing, a.input.hash, a.input.hasConfig = c, hash(text), true
	return nil
}

// Paused says that nothing may be applied on a node.
func Paused(c Config, node string, labels map[string]string) bool {
	rule, ok := c.ForNode(node, labels)
	return ok && rule.Node.Paused
}

// Waiting says what must be known before anything is decided; "" when all is.
func (a *Agent) Waiting() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !a.input.hasConfig:
		return "waiting for the config"
	case !a.input.hasLabels:
		return "waiting for the labels of the node"
	}
	if awaited := a.input.awaited(); len(awaited) > 0 {
		return "waiting for configmap " + strings.Join(awaited, ", ")
	}
	return ""
}

// SetLabels tells the labels of this node, by which the config chooses.
func (a *Agent) SetLabels(labels map[string]string) error {
	a.mu.Lock()
	same := a.input.hasLabels && maps.Equal(a.input.labels, labels)
	a.mu.Unlock()
	if same {
		return nil
	}
	if err := a.store.SaveLabels(labels); err != nil {
		return fmt.Errorf("keep labels: %w", err)
	}
	a.mu.Lock()
	a.input.labels, a.input.hasLabels = labels, true
	a.mu.Unlock()
	a.Kick()
	return nil
}

// SetConfig offers a new config text. One that does not load changes nothing but the problems; one that loads is kept on
// disk before it takes effect.
func (a *Agent) SetConfig(name string, text []byte) error {
	c, err := config.Admit(name, text)
	if err != nil {
		a.setInputProblems(ReasonConfigInvalid, err)
		return fmt.Errorf("config refused, the last good one stays: %w", err)
	}
	if err := a.store.SaveConfig(text); err != nil {
		a.setInputProblems(ReasonConfigNotKept, err)
		return fmt.Errorf("keep config: %w", err)
	}
	a.mu.Lock()
	a.input.config.Sharing, a.input.hash, a.input.hasConfig = c, hash(text), true
	a.input.problems = withoutConfigProblems(a.input.problems)
	close(a.renamed)
	a.renamed = make(chan struct{})
	a.mu.Unlock()
	a.Kick()
	return nil
}

// ConfigUnavailable says that the source of the config cannot be read; the last good one stays.
func (a *Agent) ConfigUnavailable(err error) { a.setInputProblems(ReasonConfigMissing, err) }

func (a *Agent) setInputProblems(r Reason, err error) {
	a.mu.Lock()
	a.input.problems = append(withoutConfigProblems(a.input.problems), Problem{Reason: r, Message: err.Error()})
	a.input.hasConfig = true // that there is none is an answer too
	a.mu.Unlock()
	a.Kick()
}

func withoutConfigProblems(ps []Problem) []Problem {
	kept := []Problem{}
	for _, p := range ps {
		if p.Reason != ReasonConfigInvalid && p.Reason != ReasonConfigMissing && p.Reason != ReasonConfigNotKept {
			kept = append(kept, p)
		}
	}
	return kept
}
