// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/timeslice"
)

// MemoryLimit says whether shares are held to their part of the memory of their GPU.
type MemoryLimit string

// What a node can say of the memory of its shares.
const (
	// NoLimit says that at least one GPU cannot be asked to, or that no limit was seen to stand yet.
	NoLimit MemoryLimit = "none"
	// Enforced says that every GPU can, and that a limit was read back on a running container in this boot.
	Enforced MemoryLimit = "enforced"
)

// Memory is what is known of limits on the memory of one GPU. It is read only where a policy asks for them.
type Memory struct {
	Asked    bool
	Reserved uint64 // bytes that the driver keeps for itself
	Missing  string // why containers cannot be held to anything; "" = they can
}

// asksForLimits says that the shares of a GPU are to be held to their part of its memory.
func (t Target) asksForLimits() bool {
	ts := t.Policy.Layout.TimeSlicing
	return t.Policy.Managed && ts != nil && ts.Memory == "share" && ts.Shares()
}

// shareMemory is what each share of a device is held to, in bytes; 0 where nothing can hold it.
func shareMemory(t Target, d Device) uint64 {
	if !t.Memory.Asked || t.Memory.Missing != "" || d.API != DevicePlugin || d.Replicas <= 1 || d.Instance != nil {
		return 0
	}
	part, err := timeslice.ShareMemory(t.GPU.MemoryMiB<<20, t.Memory.Reserved, d.Replicas)
	if err != nil {
		return 0 // findMemory says so
	}
	return part
}

// findMemory finds out for each GPU whether its shares can be held to their part of its memory.
func (a *Agent) findMemory(ctx context.Context, targets []Target) {
	for i, t := range targets {
		if t.asksForLimits() {
			targets[i].Memory = a.memoryOf(ctx, t)
		}
	}
}

func (a *Agent) memoryOf(ctx context.Context, t Target) Memory {
	if missing := a.noLimits(t); missing != "" {
		return Memory{Asked: true, Missing: missing}
	}
	last, known := a.limitable[t.GPU.UUID]
	if t.GPU.Fault != nil || t.GPU.Released != "" {
		if !known {
			last = Memory{Asked: true, Missing: "the GPU was not asked yet"}
		}
		return last
	}
	m, err := a.askForLimits(ctx, t.GPU)
	if err != nil && known && !isFinal(err) {
		return last // one failed call is no reason to let containers start without a limit
	}
	if err != nil {
		m.Missing = err.Error()
	} else if _, err := timeslice.ShareMemory(t.GPU.MemoryMiB<<20, m.Reserved, t.Policy.Layout.TimeSlicing.Replicas); err != nil {
		m.Missing = err.Error()
	}
	a.limitable[t.GPU.UUID] = m
	return m
}

// noLimits is why this agent cannot bound containers on a GPU, whatever its driver can.
func (a *Agent) noLimits(t Target) string {
	switch {
	case t.GPU.MIG.Mode.Current:
		return "the driver has no limits in MIG mode"
	case !slices.Contains(a.opts.APIs, DevicePlugin):
		return "this agent hands GPUs out by DRA alone, which sets none"
	case a.opts.NoHook != "":
		return a.opts.NoHook
	case a.opts.Cgroups == nil:
		return "this agent cannot find the cgroups of containers"
	}
	if err := a.opts.Cgroups.Unified(); err != nil {
		return err.Error()
	}
	return ""
}

// askForLimits reads the limit of this very process, which changes nothing: a driver that answers has limits.
func (a *Agent) askForLimits(ctx context.Context, g devices.GPU) (Memory, error) {
	m := Memory{Asked: true}
	cgroup, err := a.opts.Cgroups.Of(os.Getpid())
	if err != nil {
		return m, err
	}
	if _, err := a.hw.MemoryLimit(ctx, g.PCI, cgroup); err != nil {
		if errors.Is(err, devices.ErrFunctionNotFound) {
			err = fmt.Errorf("the driver is older than 615: %w", err)
		}
		return m, err
	}
	m.Reserved, err = a.hw.ReservedMemory(ctx, g.PCI)
	return m, err
}

// isFinal tells an answer of the driver that it will repeat.
func isFinal(err error) bool {
	return errors.Is(err, devices.ErrFunctionNotFound) || errors.Is(err, devices.ErrNotSupported)
}

// notLimited says of which GPUs the shares can take all memory.
func notLimited(targets []Target) []Problem {
	problems := []Problem{}
	for _, t := range targets {
		if t.Memory.Asked && t.Memory.Missing != "" {
			problems = append(problems, Problem{
				GPU: t.GPU.Name(), Reason: ReasonMemoryNotLimited,
				Message: fmt.Sprintf("layout %s: memory: share is not enforced, a share can take all memory of the GPU: %s", t.Policy.LayoutName, t.Memory.Missing),
			})
		}
	}
	return problems
}
