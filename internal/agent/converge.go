// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"gpuslice/internal/config"
	"gpuslice/internal/config/nvidia"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/mig"
)

// Converge brings the node one pass closer to what is wanted: read, decide, shrink the view, read the holders again,
// change the hardware, read back, publish. It ends without a change when nothing differs.
func (a *Agent) Converge(ctx context.Context) error {
	a.converging.Lock()
	defer a.converging.Unlock()
	o, targets := a.look(ctx)
	a.prove(ctx, o)
	node, err := a.pass(ctx, o, targets)
	a.weigh(ctx, node)
	return err
}

// begin is Converge that asks nobody for what the first list can do without: not the driver for the links of GPUs nor, unless the
// config is about that, how they can be cut, and not the API server. Another pass comes soon after.
func (a *Agent) begin(ctx context.Context) error {
	a.converging.Lock()
	defer a.converging.Unlock()
	a.mu.Lock()
	in := a.input
	a.mu.Unlock()
	o, targets := observation{}, []Target{}
	if !needsProfiles(in, a.opts.NodeName, a.before) {
		o, targets = a.lookBy(ctx, a.hw.Glance)
		in = o.input // which may be a later one
	}
	if needsProfiles(in, a.opts.NodeName, a.before) {
		o, targets = a.look(ctx)
	}
	_, err := a.pass(ctx, o, targets)
	time.AfterFunc(completeAfter, a.Kick)
	return err
}

// needsProfiles says whether what is asked of a node, or was in force before, has to do with how its GPUs can be cut.
func needsProfiles(in input, node string, before Before) bool {
	rule, _ := in.config.ForNode(node, in.labels)
	wasCut := func(p config.Policy) bool { return p.Layout.MIG != nil }
	return rule.AsksForMIG() || in.config.NVIDIA != nil || in.labels[nvidia.MIGPartedLabel] != "" ||
		slices.ContainsFunc(slices.Collect(maps.Values(before.Policies)), wasCut)
}

// pass goes on from a look; it returns the node as it was read last.
func (a *Agent) pass(ctx context.Context, o observation, targets []Target) (devices.Node, error) {
	failures := map[string]error{}
	a.restoreAll(ctx, o.node)
	o, targets, err := a.resetSick(ctx, o, targets)
	if err != nil {
		return o.node, a.again(err)
	}
	if plans := a.runnable(o, targets); len(plans) > 0 {
		if err := a.withdraw(o, targets, plans); err != nil {
			return o.node, a.again(err)
		}
		o, targets = a.look(ctx) // busy is read again, now that nothing more can be given out
		failures = a.apply(ctx, a.runnable(o, targets), plans)
		o, targets = a.look(ctx)
	}
	if !Paused(o.input.config, a.opts.NodeName, o.input.labels) {
		o.problems = append(o.problems, a.setIntervals(ctx, targets)...)
	}
	o.limits = a.limitsOf(ctx, o, targets)
	return o.node, a.finish(o, targets, failures)
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
	err := a.publish(v, o.answers)
	a.noteIdle(o, v, err == nil, time.Now())
	return a.again(err)
}

// again asks for another pass when the view could not be published because it was out of date.
func (a *Agent) again(err error) error {
	if errors.Is(err, errStale) {
		a.Kick()
		return nil
	}
	return err
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
	small.Targets, small.Changes = targets, a.ledger.journal.changes
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
	v.Changes, v.Labels = a.ledger.journal.changes, o.input.labels
	v.ConfigHash, v.chooser, v.MemoryLimit, v.Unseen = o.input.hash, a.linked.chooser, o.limits.verdict, o.unseen
	v.Problems = slices.Concat(v.Problems, o.input.problems, o.input.partProblems(), o.problems, o.limits.problems, a.injection(o), a.unknowns(o))
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
	for _, why := range o.node.Unsupported {
		problems = append(problems, Problem{Reason: ReasonPlatform, Message: why.Error()})
	}
	for _, socket := range a.lastRecord.Foreign {
		problems = append(problems, Problem{Reason: ReasonForeignPlugin, Message: socket + " is served by NVIDIA's device plugin; two products that offer one GPU give it away twice"})
	}
	switch why := o.usage.Unknown[""]; {
	case o.noNode != nil:
		problems = append(problems, withoutDriver(o.noNode))
	case len(o.unreadable) > 0:
		for _, why := range o.unreadable {
			problems = append(problems, Problem{Reason: ReasonStateUnreadable, Message: why})
		}
	case why != "":
		problems = append(problems, Problem{Reason: ReasonUsageUnknown, Message: why})
	}
	return problems
}

// withoutDriver says why there is no GPU at all.
func withoutDriver(err error) Problem {
	if _, is := errors.AsType[devices.PlatformError](err); is {
		return Problem{Reason: ReasonPlatform, Message: err.Error()}
	}
	return Problem{Reason: ReasonNoDriver, Message: err.Error()}
}

// forgetGone drops GPUs that the driver no longer lists once nobody holds them.
func (a *Agent) forgetGone(o observation) {
	for _, g := range o.node.GPUs {
		if errors.Is(g.Fault, devices.ErrGone) && len(o.usage.allocationsOn(g)) == 0 && len(o.usage.claimHolders(g.UUID)) == 0 {
			a.hw.Forget(g.PCI)
		}
	}
}
