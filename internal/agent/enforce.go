// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/klog/v2"

	"gpuslice/internal/state"
	"gpuslice/pkg/devices"
)

// limitReport is what a pass found of the limits.
type limitReport struct {
	verdict  MemoryLimit
	problems []Problem
}

// limitsOf finds out what can be bounded, puts back what differs, and says how far that goes.
func (a *Agent) limitsOf(ctx context.Context, o observation, targets []Target) limitReport {
	a.findMemory(ctx, targets)
	unset := a.keepLimits(ctx, targets, Paused(o.input.config, a.opts.NodeName, o.input.labels))
	standing := a.limits.list()
	free := a.unlimited(o.usage, targets, standing)
	return limitReport{
		verdict:  a.verdict(targets, len(unset)+len(free) > 0),
		problems: slices.Concat(notLimited(targets), unset, free, overcommitted(standing, targets)),
	}
}

// verdict is honest rather than hopeful: one GPU that cannot, one limit that does not stand or one process without a limit, and
// the node is none.
func (a *Agent) verdict(targets []Target, doubt bool) MemoryLimit {
	asked, seen := false, false
	for _, t := range targets {
		if !t.Memory.Asked {
			continue
		}
		if asked = true; t.Memory.Missing != "" {
			return NoLimit
		}
		seen = seen || a.gpus[t.GPU.UUID].MemoryLimited
	}
	switch {
	case !asked:
		return ""
	case seen && !doubt:
		return Enforced
	}
	return NoLimit
}

// keepLimits reads the limit of every running container back and sets it again where it differs. A cgroup that is gone took its
// limit along.
func (a *Agent) keepLimits(ctx context.Context, targets []Target, paused bool) []Problem {
	problems := []Problem{}
	if a.opts.Cgroups == nil {
		return problems
	}
	for _, l := range a.limits.list() {
		if !a.opts.Cgroups.Exists(l.Cgroup) {
			if err := a.limits.drop(l); err != nil {
				klog.FromContext(ctx).Error(err, "Limit of a container that is gone is still kept; trying again", "container", l.Container)
			}
			continue
		}
		i := slices.IndexFunc(targets, func(t Target) bool { return t.GPU.UUID == l.GPU })
		if i < 0 || targets[i].GPU.Fault != nil || targets[i].GPU.Released != "" {
			continue
		}
		if err := a.keepLimit(ctx, targets[i].GPU, l, paused); err != nil {
			problems = append(problems, Problem{GPU: targets[i].GPU.Name(), Reason: ReasonMemoryLimitNotSet, Message: fmt.Sprintf("container %s: %v", l.Container, err)})
		}
	}
	return problems
}

func (a *Agent) keepLimit(ctx context.Context, g devices.GPU, l state.Limit, paused bool) error {
	is, err := a.hw.MemoryLimit(ctx, g.PCI, l.Cgroup)
	switch {
	case err != nil:
		return err
	case is != l.Hard && paused:
		return fmt.Errorf("its limit is %d bytes instead of %d, and nothing is changed while the config says paused", is, l.Hard)
	case is != l.Hard:
		klog.FromContext(ctx).Info("Putting a memory limit back", "gpu", g.Name(), "container", l.Container, "is", is, "want", l.Hard)
		if err := a.hw.SetMemoryLimit(ctx, g.PCI, l.Cgroup, l.Hard); err != nil {
			return err
		}
	}
	if a.gpus[g.UUID].MemoryLimited {
		return nil
	}
	return a.note(g.UUID, func(s *state.GPU) { s.MemoryLimited = true })
}

// overcommitted names GPUs on which running containers have been promised more than there is: those that started before replicas
// was edited keep what they had.
func overcommitted(limits []state.Limit, targets []Target) []Problem {
	problems := []Problem{}
	for _, t := range targets {
		if !t.Memory.Asked || t.Memory.Missing != "" {
			continue
		}
		promised, containers := uint64(0), 0
		for _, l := range limits {
			if l.GPU == t.GPU.UUID {
				promised += l.Hard
				containers++
			}
		}
		if has := t.GPU.MemoryMiB<<20 - t.Memory.Reserved; promised > has {
			problems = append(problems, Problem{GPU: t.GPU.Name(), Reason: ReasonMemoryOvercommit, Message: fmt.Sprintf(
				"%d running containers may take %d MiB, the GPU has %d: those from before replicas changed keep their limits until they end", containers, promised>>20, has>>20)})
		}
	}
	return problems
}

// unlimited names who computes on a bounded GPU without a limit: containers from before the layout, and what is no container's.
func (a *Agent) unlimited(u Usage, targets []Target, standing []state.Limit) []Problem {
	problems := []Problem{}
	for _, t := range targets {
		if !t.Memory.Asked || t.Memory.Missing != "" {
			continue
		}
		pids := []int{}
		for _, p := range u.Processes[t.GPU.PCI] {
			folder, err := a.opts.Cgroups.Of(p.PID)
			held := slices.ContainsFunc(standing, func(l state.Limit) bool {
				return l.GPU == t.GPU.UUID && strings.HasPrefix(folder+"/", l.Cgroup+"/")
			})
			if err == nil && !held { // one that has ended meanwhile has no cgroup
				pids = append(pids, p.PID)
			}
		}
		if slices.Sort(pids); len(pids) > 0 {
			problems = append(problems, Problem{GPU: t.GPU.Name(), Reason: ReasonMemoryNotLimited, Message: fmt.Sprintf(
				"%d of the processes on the GPU have no limit, the first is pid %d: they began before memory: share was set, or are of no container", len(pids), pids[0])})
		}
	}
	return problems
}
