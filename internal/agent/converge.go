// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"gpuslice/internal/kubelet"
	"gpuslice/internal/state"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/mig"
)

// observation is everything that was read for one pass.
type observation struct {
	node    devices.Node
	usage   Usage
	input   input
	answers uint64
	noNode  error // the driver does not answer at all
	// unreadable says which intents could not be read.
	unreadable []string
	problems   []Problem
	limits     limitReport
}

// Converge brings the node one pass closer to what is wanted: read, decide, shrink the view, read the holders again,
// change the hardware, read back, publish. It ends without a change when nothing differs.
func (a *Agent) Converge(ctx context.Context) error {
	a.converging.Lock()
	defer a.converging.Unlock()
	failures := map[string]error{}
	o, targets := a.look(ctx)
	a.restoreAll(ctx, o.node)
	if plans := a.runnable(o, targets); len(plans) > 0 {
		if err := a.withdraw(o, targets, plans); err != nil {
			return a.again(err)
		}
		o, targets = a.look(ctx) // busy is read again, now that nothing more can be given out
		failures = a.apply(ctx, a.runnable(o, targets), plans)
		o, targets = a.look(ctx)
	}
	if !Paused(o.input.config, a.opts.NodeName, o.input.labels) {
		o.problems = append(o.problems, a.setIntervals(ctx, targets)...)
	}
	o.limits = a.limitsOf(ctx, o, targets)
	o.problems = append(o.problems, a.injection(ctx, o)...)
	err := a.finish(o, targets, failures)
	a.weigh(ctx, o.node)
	return err
}

// finish publishes what was read back, and remembers what later passes must know of it.
func (a *Agent) finish(o observation, targets []Target, failures map[string]error) error {
	v := a.viewOf(o, targets, failures)
	// What cannot be kept is said, and offered all the same: devices that vanish would harm more than a restart that forgets.
	for _, err := range []error{a.rememberResources(v.Resources()), a.rememberPolicies(targets)} {
		if err != nil {
			v.Problems = sortProblems(append(v.Problems, Problem{Reason: ReasonStateNotKept, Message: err.Error()}))
		}
	}
	return a.again(a.publish(v, o.answers))
}

// again asks for another pass when the view could not be published because it was out of date.
func (a *Agent) again(err error) error {
	if errors.Is(err, errStale) {
		a.Kick()
		return nil
	}
	return err
}

func (a *Agent) look(ctx context.Context) (observation, []Target) {
	o := a.observe(ctx)
	targets := Compile(o.input.config, a.opts.NodeName, o.input.labels, o.node, o.usage)
	if o.usage.Clients = FindClients(ctx, a.hw, targets); len(o.usage.Clients) > 0 {
		targets = Compile(o.input.config, a.opts.NodeName, o.input.labels, o.node, o.usage)
	}
	return o, targets
}

// observe reads the hardware and everything that may hold it. What it cannot read is noted as unknown.
func (a *Agent) observe(ctx context.Context) observation {
	a.mu.Lock()
	o := observation{input: a.input, answers: a.answers}
	o.usage.Claims = slices.SortedFunc(maps.Values(a.claims), func(x, y state.Claim) int { return strings.Compare(x.UID, y.UID) })
	o.usage.Unknown = map[string]string{}
	if o.unreadable = slices.Sorted(maps.Values(a.unreadable)); len(o.unreadable) > 0 {
		o.usage.Unknown[""] = "what claims hold is not known: " + o.unreadable[0]
	}
	a.mu.Unlock()
	o.usage.Before = Before{Policies: maps.Clone(a.before.Policies), Resources: a.before.Resources, FailedResets: a.failedResets()}
	o.usage.Processes = map[string][]devices.Process{}
	a.lookReleased(ctx, &o)
	a.readKubelet(ctx, &o)
	for _, g := range o.node.GPUs {
		if g.Fault != nil || g.Released != "" {
			continue
		}
		processes, err := a.hw.Processes(ctx, g.PCI)
		if err != nil {
			o.usage.Unknown[g.PCI] = err.Error()
			continue
		}
		o.usage.Processes[g.PCI] = processes
	}
	a.adopt(ctx, &o)
	return o
}

// readNode keeps the GPUs of before, as faulty, while the driver as a whole does not answer: they are not gone.
func (a *Agent) readNode(ctx context.Context, o *observation) {
	o.node, o.noNode = a.hw.Snapshot(ctx)
	if o.noNode == nil {
		a.lastNode = o.node
		return
	}
	o.usage.Unknown[""] = "the driver does not answer"
	o.node = a.lastNode
	o.node.GPUs = slices.Clone(o.node.GPUs)
	for i := range o.node.GPUs {
		o.node.GPUs[i].Fault = o.noNode
	}
}

func (a *Agent) readKubelet(ctx context.Context, o *observation) {
	started := time.Now()
	record, err := a.kubelet.Read(ctx)
	switch {
	case err != nil:
		o.usage.Unknown[""] = "the kubelet does not answer: " + err.Error()
		record = a.lastRecord
	case record.ForeignPIDs:
		o.usage.Unknown[""] = "this agent runs outside the host's PID namespace (hostPID), so the driver hides processes from it"
		a.lastRecord = record
	default:
		a.lastRecord = record
	}
	o.usage.Allocations = a.reconcileAnswers(record, started, err == nil)
}

// reconcileAnswers joins the kubelet's record with our own answers and drops those that the record has caught up with.
func (a *Agent) reconcileAnswers(r kubelet.Record, read time.Time, fresh bool) []kubelet.Allocation {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := slices.Clone(r.Allocations)
	kept := a.allocated[:0:0]
	for _, own := range a.allocated {
		shown := slices.ContainsFunc(r.Allocations, func(x kubelet.Allocation) bool { return x.Resource == own.resource && x.ID == own.id })
		switch {
		case shown:
			own.shown = true
		case fresh && own.isOver(read):
			continue
		default:
			all = append(all, kubelet.Allocation{Resource: own.resource, ID: own.id, Holder: "an allocation of " + own.at.Format(time.TimeOnly)})
		}
		kept = append(kept, own)
	}
	a.allocated = kept
	return all
}

// runnable picks the plans that may be carried out now.
func (a *Agent) runnable(o observation, targets []Target) []Target {
	if Paused(o.input.config, a.opts.NodeName, o.input.labels) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(targets), func(t Target) bool {
		return !t.Plan.Runnable() || !a.retry.allows(t.Plan.GPU, t.Plan.String(), time.Now())
	})
}

// withdraw publishes a view without what the plans take away. Before the first view there is nothing to withdraw.
func (a *Agent) withdraw(o observation, targets, runnable []Target) error {
	a.mu.Lock()
	current := a.view
	a.mu.Unlock()
	if current == nil {
		return nil
	}
	plans := make([]mig.Plan, len(runnable))
	for i, t := range runnable {
		plans[i] = t.Plan
	}
	small := shrink(*current, plans)
	small.Targets = targets
	return a.publish(small, o.answers)
}

// apply carries out the plans that are still the ones for which the view was shrunk.
func (a *Agent) apply(ctx context.Context, now, announced []Target) map[string]error {
	failures := map[string]error{}
	for _, t := range now {
		if !slices.ContainsFunc(announced, func(x Target) bool { return x.Plan.String() == t.Plan.String() }) {
			a.Kick() // something changed in between: the next pass announces the new plan first
			continue
		}
		logger := klog.FromContext(ctx).WithValues("gpu", t.Plan.GPU)
		logger.Info("Applying", "plan", t.Plan.String())
		if err := a.carryOut(ctx, t); err != nil {
			logger.Error(err, "Plan failed")
			failures[t.Plan.GPU] = err
			a.retry.failed(t.Plan.GPU, t.Plan.String(), time.Now())
			continue
		}
		failures[t.Plan.GPU] = nil
	}
	return failures
}

// viewOf builds the view and compares what was asked for with what was read back (P4).
func (a *Agent) viewOf(o observation, targets []Target, applied map[string]error) View {
	v := build(o.input.config, a.opts.APIs, targets, o.node, o.usage)
	v.ConfigHash, v.chooser, v.MemoryLimit = o.input.hash, a.linked.chooser, o.limits.verdict
	v.Problems = slices.Concat(v.Problems, o.input.problems, o.input.partProblems(), o.problems, o.limits.problems, a.unknowns(o))
	waiting := map[string]bool{}
	paused := Paused(o.input.config, a.opts.NodeName, o.input.labels)
	for _, t := range targets {
		waiting[t.Plan.GPU] = t.Plan.Runnable() && !paused
		switch err, tried := applied[t.Plan.GPU]; {
		case !tried:
		case errors.Is(err, errNoHelp): // the target says so
		case err != nil:
			v.Problems = append(v.Problems, Problem{GPU: t.Plan.GPU, Reason: failureReason(err), Message: err.Error()})
		case !t.Plan.IsEmpty():
			a.retry.failed(t.Plan.GPU, t.Plan.String(), time.Now())
			v.Problems = append(v.Problems, Problem{GPU: t.Plan.GPU, Reason: ReasonNotAsPlanned, Message: fmt.Sprintf("read back %s, still to do: %s", t.GPU, t.Plan)})
		}
	}
	a.retry.keepOnly(waiting)
	v.Problems = sortProblems(v.Problems)
	a.forgetGone(o)
	return v
}

// unknowns says what of the node could not be read, or is not as it must be.
func (a *Agent) unknowns(o observation) []Problem {
	problems := []Problem{}
	if o.node.Silent > 0 {
		problems = append(problems, Problem{Reason: ReasonGPUFault, Message: fmt.Sprintf("%d GPUs that the driver counts do not say who they are", o.node.Silent)})
	}
	for _, socket := range a.lastRecord.Foreign {
		problems = append(problems, Problem{Reason: ReasonForeignPlugin, Message: socket + " is served by NVIDIA's device plugin; two products that offer one GPU give it away twice"})
	}
	switch why := o.usage.Unknown[""]; {
	case o.noNode != nil:
		problems = append(problems, Problem{Reason: ReasonNoDriver, Message: o.noNode.Error()})
	case len(o.unreadable) > 0:
		for _, why := range o.unreadable {
			problems = append(problems, Problem{Reason: ReasonStateUnreadable, Message: why})
		}
	case why != "":
		problems = append(problems, Problem{Reason: ReasonUsageUnknown, Message: why})
	}
	return problems
}

// forgetGone drops GPUs that the driver no longer lists once nobody holds them.
func (a *Agent) forgetGone(o observation) {
	for _, g := range o.node.GPUs {
		if errors.Is(g.Fault, devices.ErrGone) && len(o.usage.allocationsOn(g)) == 0 && len(o.usage.claimHolders(g.UUID)) == 0 {
			a.hw.Forget(g.PCI)
		}
	}
}
