// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package command

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"gpuslice/internal/agent"
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
	Name       string          `json:"name"`
	Line       string          `json:"line"`
	Layout     string          `json:"layout,omitempty"`
	Steps      []string        `json:"steps"`
	Reasons    []PlanReason    `json:"reasons"` // of the steps that do not follow from the layout alone
	Kept       []string        `json:"kept"`    // instances that stay, with their holders
	Blocked    []string        `json:"blocked"` // what stands in the way, with its holders; then no step is taken
	NeedsReset bool            `json:"needsReset"`
	Problems   []agent.Problem `json:"problems"`
}

// PlanReason says why a step is taken.
type PlanReason struct {
	Step string `json:"step"`
	Why  string `json:"why"`
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
	c, err := f.loadConfig()
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
	all := agent.Offline(c, f.NodeLabels, node)
	targets := agent.Compile(all, f.NodeName, f.NodeLabels, node, usage)
	if usage.Clients = agent.FindClients(ctx, hw, targets); len(usage.Clients) > 0 {
		targets = agent.Compile(all, f.NodeName, f.NodeLabels, node, usage)
	}
	if len(targets) > 0 { // they concern the node, and are said once
		targets[0].Problems = append(all.Problems, targets[0].Problems...)
	}
	return targets, hw.Close(ctx)
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
	if f.Hardware == "nvml" || f.set["kubelet-dir"] {
		if err := f.kubeletUsage(ctx, &u); err != nil {
			return u, err
		}
	}
	if f.Hardware == "nvml" || f.set["state-dir"] {
		return u, f.agentUsage(&u)
	}
	return u, nil
}

// agentUsage reads what the agent of this node keeps, if there is one.
func (f *Flags) agentUsage(u *agent.Usage) error {
	if _, err := os.Stat(filepath.Join(f.StateDir, "claims")); err != nil {
		return nil
	}
	bootID, err := state.BootID(f.ProcRoot)
	if err != nil {
		return err
	}
	gpus, err := state.PeekGPUs(f.StateDir, bootID)
	if err != nil {
		return err
	}
	u.Before.FailedResets = map[string]string{}
	for _, g := range gpus {
		if g.ResetFailed != "" {
			u.Before.FailedResets[g.UUID] = g.ResetFailed
		}
	}
	u.Claims, err = state.Peek(f.StateDir)
	return err
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
	created, destroyed, changed, waiting := 0, 0, 0, 0
	for _, t := range targets {
		if !t.Plan.IsEmpty() {
			fmt.Fprintln(s.Out, t.Plan)
			explain(s, t.Plan)
		}
		switch {
		case t.Plan.IsEmpty():
		case !t.Plan.Runnable() || t.Paused:
			waiting++
		default:
			changed++
			created += len(t.Plan.Creates())
			destroyed += len(t.Plan.Removes())
		}
		for _, p := range t.Problems {
			if p.Reason != agent.ReasonBlocked { // the plan has said so
				fmt.Fprintln(s.Out, p)
			}
		}
	}
	fmt.Fprintf(s.Out, "%d of %d GPUs change: %d instances new, %d gone", changed, len(targets), created, destroyed)
	if waiting > 0 {
		fmt.Fprintf(s.Out, "; %d waiting", waiting)
	}
	fmt.Fprintln(s.Out)
}

// explain says what a plan leaves alone and why it takes the rest away.
func explain(s Streams, p mig.Plan) {
	for _, k := range p.Kept {
		fmt.Fprintf(s.Out, "kept %s: %s\n", p.GPU, k)
	}
	for _, r := range p.Reasons() {
		fmt.Fprintf(s.Out, "reason %s: %s\n", p.GPU, r)
	}
}

func planOf(targets []agent.Target) PlanDocument {
	doc := PlanDocument{GPUs: []PlanGPU{}}
	for _, t := range targets {
		doc.GPUs = append(doc.GPUs, PlanGPU{
			Name: t.GPU.Name(), Line: t.GPU.String(), Layout: t.Policy.LayoutName,
			Steps: texts(t.Plan.Steps), Reasons: reasonsOf(t.Plan), Kept: texts(t.Plan.Kept), Blocked: texts(t.Plan.Blocked),
			NeedsReset: t.Plan.NeedsReset, Problems: append([]agent.Problem{}, t.Problems...),
		})
	}
	return doc
}

// texts is what each prints as; never nil, so that a document has a list.
func texts[T fmt.Stringer](all []T) []string {
	printed := make([]string, len(all))
	for i, x := range all {
		printed[i] = x.String()
	}
	return printed
}

func reasonsOf(p mig.Plan) []PlanReason {
	all := []PlanReason{}
	for _, r := range p.Reasons() {
		all = append(all, PlanReason{Step: r.Step.String(), Why: r.Why})
	}
	return all
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
