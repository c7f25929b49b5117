// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package command

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"gpuslice/internal/agent"
	"gpuslice/internal/config"
	"gpuslice/internal/kubelet"
	"gpuslice/internal/state"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/mig"
)

// PlanDocument is what `plan -o json` prints. Keys are only ever added.
type PlanDocument struct {
	GPUs []PlanGPU `json:"gpus"`
}

// PlanGPU is what a config would do to one GPU.
type PlanGPU struct {
	Name     string          `json:"name"`
	Line     string          `json:"line"`
	Layout   string          `json:"layout,omitempty"`
	Steps    []string        `json:"steps"`
	Blocked  []string        `json:"blocked"`
	Problems []agent.Problem `json:"problems"`
}

// PlanCommand shows what a config would do.
func PlanCommand() Command {
	return Command{Name: "plan", Summary: "show what a config would do on this node (exit 0 nothing, 2 changes, 3 blocked or impossible)", Run: runPlan}
}

func runPlan(ctx context.Context, f *Flags, s Streams) int {
	targets, err := f.targets(ctx)
	if err != nil {
		return fail(s, f, "plan", err)
	}
	if f.Output != "text" {
		if status := write(s, f, "plan", planOf(targets)); status != ok {
			return status
		}
	} else {
		printPlan(s, targets)
	}
	return planStatus(targets)
}

func (f *Flags) targets(ctx context.Context) ([]agent.Target, error) {
	name, text, err := f.readConfig()
	if err != nil {
		return nil, err
	}
	c, err := config.Load(name, text)
	if err != nil {
		return nil, err
	}
	hw, err := f.hardware()
	if err != nil {
		return nil, err
	}
	node, err := hw.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	usage, err := f.usage(ctx, hw, node)
	if err != nil {
		return nil, err
	}
	return agent.Compile(c, f.NodeName, f.NodeLabels, node, usage), hw.Close(ctx)
}

// usage reads what holds devices, without taking part: nothing is written, nothing is locked.
func (f *Flags) usage(ctx context.Context, hw *devices.Hardware, node devices.Node) (agent.Usage, error) {
	u := agent.Usage{Processes: map[string][]devices.Process{}, Unknown: map[string]string{}}
	for _, g := range node.GPUs {
		processes, err := hw.Processes(ctx, g.PCI)
		if err != nil && g.Fault == nil {
			u.Unknown[g.PCI] = err.Error()
		}
		u.Processes[g.PCI] = processes
	}
	if f.Hardware != "nvml" && !f.set["kubelet-dir"] {
		return u, nil
	}
	if err := f.kubeletUsage(ctx, &u); err != nil {
		return u, err
	}
	if _, err := os.Stat(filepath.Join(f.StateDir, "claims")); err != nil {
		return u, nil
	}
	claims, err := state.Peek(f.StateDir)
	u.Claims = claims
	return u, err
}

func (f *Flags) kubeletUsage(ctx context.Context, u *agent.Usage) error {
	reader, err := kubelet.NewReader(f.KubeletDir)
	if err != nil {
		return err
	}
	defer reader.Close()
	record, err := reader.Read(ctx)
	switch {
	case err != nil:
		u.Unknown[""] = "the kubelet does not answer: " + err.Error()
	case record.ForeignPIDs:
		u.Unknown[""] = "this command runs outside the host's PID namespace"
	default:
		u.Allocations = record.Allocations
	}
	return nil
}

func printPlan(s Streams, targets []agent.Target) {
	created, destroyed, changed := 0, 0, 0
	for _, t := range targets {
		if !t.Plan.IsEmpty() {
			changed++
			fmt.Fprintln(s.Out, t.Plan)
		}
		for _, step := range t.Plan.Steps {
			switch step.(type) {
			case mig.Create:
				created++
			case mig.Destroy:
				destroyed++
			}
		}
		for _, p := range t.Problems {
			if p.Reason != agent.ReasonBlocked { // the plan has said so
				fmt.Fprintln(s.Out, p)
			}
		}
	}
	fmt.Fprintf(s.Out, "%d of %d GPUs change: %d instances new, %d gone\n", changed, len(targets), created, destroyed)
}

func planOf(targets []agent.Target) PlanDocument {
	doc := PlanDocument{GPUs: []PlanGPU{}}
	for _, t := range targets {
		g := PlanGPU{
			Name: t.GPU.Name(), Line: t.GPU.String(), Layout: t.Policy.LayoutName,
			Steps: []string{}, Blocked: []string{}, Problems: append([]agent.Problem{}, t.Problems...),
		}
		for _, step := range t.Plan.Steps {
			g.Steps = append(g.Steps, step.String())
		}
		for _, b := range t.Plan.Blocked {
			g.Blocked = append(g.Blocked, b.String())
		}
		doc.GPUs = append(doc.GPUs, g)
	}
	return doc
}

// planStatus is 3 when some entry cannot be followed now, else 2 when something changes, else 0.
func planStatus(targets []agent.Target) int {
	status := ok
	for _, t := range targets {
		if !t.Plan.IsEmpty() {
			status = max(status, changes)
		}
		for _, p := range t.Problems {
			if !p.IsInformation() {
				status = impeded
			}
		}
	}
	return status
}
