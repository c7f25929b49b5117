// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"gpuslice/internal/kubelet"
	"gpuslice/internal/state"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/health"
)

// observation is everything that was read for one pass.
type observation struct {
	node    devices.Node
	usage   Usage
	input   input
	answers uint64
	noNode  error // the driver does not answer at all
	unseen  bool  // which GPUs there are is not known
	// unreadable says which intents could not be read.
	unreadable []string
	problems   []Problem
	limits     limitReport
	health     map[string]health.State // by UUID
	access     bool                    // every GPU is lost at once
}

// reader is how the GPUs of the node are read.
type reader func(context.Context) (devices.Node, error)

func (a *Agent) look(ctx context.Context) (observation, []Target) {
	return a.lookBy(ctx, a.hw.Snapshot)
}

func (a *Agent) lookBy(ctx context.Context, read reader) (observation, []Target) {
	o := a.observe(ctx, read)
	targets := Compile(o.input.config, a.opts.NodeName, o.input.labels, o.node, o.usage)
	if o.usage.Clients = FindClients(ctx, a.hw, targets); len(o.usage.Clients) > 0 {
		targets = Compile(o.input.config, a.opts.NodeName, o.input.labels, o.node, o.usage)
	}
	return o, targets
}

// observe reads the hardware and everything that may hold it. What it cannot read is noted as unknown.
func (a *Agent) observe(ctx context.Context, read reader) observation {
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
	told := a.ledger.take(ctx) // what comes from now on is newer than the look
	a.lookReleased(ctx, &o, read)
	a.readKubelet(ctx, &o)
	for _, g := range o.node.GPUs {
		if g.Fault != nil || g.Released != "" || g.Unsupported != nil {
			continue
		}
		processes, err := a.hw.Processes(ctx, g.PCI)
		if err != nil {
			o.usage.Unknown[g.PCI] = err.Error()
			continue
		}
		o.usage.Processes[g.PCI] = processes
	}
	a.diagnose(ctx, &o, told)
	a.adopt(ctx, &o)
	o.usage.Health, o.usage.Failures, o.usage.AccessLost = o.health, a.ledger.failures(), o.access
	return o
}

// readNode keeps the GPUs of before, as faulty, while the driver as a whole does not answer: they are not gone.
func (a *Agent) readNode(ctx context.Context, o *observation, read reader) {
	o.node, o.noNode = read(ctx)
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
