// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package command

import (
	"context"
	"fmt"

	"gpuslice/internal/agent"
	"gpuslice/internal/config"
)

// ValidateCommand checks a config.
func ValidateCommand() Command {
	return Command{Name: "validate", Summary: "check a config; with --hardware also against that machine", Run: runValidate}
}

func runValidate(ctx context.Context, f *Flags, s Streams) int {
	name, text, err := f.readConfig()
	if err == nil && f.Config == "" {
		err = fmt.Errorf("want --config=file:PATH")
	}
	if err != nil {
		return fail(s, f, "validate", err)
	}
	c, err := config.Admit(name, text)
	if err != nil {
		say(s.Err, err)
		return failed
	}
	if f.set["hardware"] {
		node, err := f.snapshot(ctx)
		if err != nil {
			return fail(s, f, "validate", err)
		}
		// Every rule is tried, whatever node it is for: the question is what this kind of machine could follow.
		for _, rule := range c.Nodes {
			rule.Match = nil
			alone := c
			alone.Nodes = []config.Node{rule}
			for _, t := range agent.Compile(agent.Offline(alone, f.NodeLabels, node), f.NodeName, f.NodeLabels, node, agent.Usage{}) {
				for _, p := range t.Problems {
					fmt.Fprintf(s.Out, "warning: %s: %s\n", name, p)
				}
			}
		}
	}
	fmt.Fprintf(s.Out, "%s: valid\n", name)
	return ok
}
