// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"gpuslice/internal/kubelet"
	"gpuslice/pkg/cdi"
	"gpuslice/pkg/timeslice"
)

// CDI is how the devices of the device plugin get into containers.
type CDI struct {
	Dir        string     // where the specs are
	Containers Containers // nil: nobody can look into containers
}

// Containers looks into running containers.
type Containers interface {
	// Look looks for the nodes of GPUs, by their minor numbers.
	Look(ctx context.Context, namespace, pod, container string, minors []int) (Sight, error)
}

// Sight is what was seen of a container.
type Sight struct {
	// Judged says that the container tells something: it runs, or the runtime refuses to make it because of CDI.
	Judged bool
	Lacks  string // what it should have and has not, or why it was not made; "" = it has everything
}

// proof is whether devices really get into containers. One container that has its devices is enough for this process; until there is
// one, every pass looks at a few of those that hold devices. It is guarded as hardware is, by converging.
type proof struct {
	done   bool
	blind  map[string]string // what containers lack, by holder
	looked map[string]int    // how often each was looked at: those that say nothing must not keep others from being asked
}

// A pass looks at so many containers, for so long: the API server may not answer, and devices wait for the pass.
const (
	looks     = 4
	lookLimit = 2 * time.Second
)

// prove looks whether devices get into containers, until one shows that they do.
func (a *Agent) prove(ctx context.Context, o observation) {
	if a.opts.CDI == nil || a.opts.CDI.Containers == nil || a.proof.done {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	a.lookInto(ctx, o)
}

// injection says what stands between containers and their devices, as far as it was looked into.
func (a *Agent) injection(o observation) []Problem {
	if a.opts.CDI == nil {
		return nil
	}
	return a.proof.problems(o.input.runtime, a.opts.CDI.Dir)
}

// problems is a pure function.
func (p proof) problems(runtime, dir string) []Problem {
	support, todo := cdi.SupportOf(runtime, dir)
	switch {
	case p.done:
		return nil
	case len(p.blind) > 0:
		first := slices.Min(slices.Collect(maps.Keys(p.blind)))
		message := fmt.Sprintf("%s: %s; the runtime must read CDI specs from %s, which is --cdi-dir", first, p.blind[first], dir)
		if more := len(p.blind) - 1; more > 0 {
			message += fmt.Sprintf(" (and %d more containers)", more)
		}
		if support != cdi.Supported && runtime != "" {
			message += "; " + todo
		}
		return []Problem{{Reason: ReasonCDINotInjected, Message: message}}
	case runtime == "" || support == cdi.Supported:
		return nil
	case support == cdi.Unsupported:
		return []Problem{{Reason: ReasonCDINotSupported, Message: todo}}
	}
	return []Problem{{Reason: ReasonCDIUnknown, Message: todo + "; this goes when the first container has its devices"}}
}

// lookInto looks at some containers that hold devices of the device plugin, first at those that were looked at least.
func (a *Agent) lookInto(ctx context.Context, o observation) {
	held := holdersOf(o)
	gone := func(holder string) bool { return held[holder] == nil }
	maps.DeleteFunc(a.proof.blind, func(holder, _ string) bool { return gone(holder) })
	maps.DeleteFunc(a.proof.looked, func(holder string, _ int) bool { return gone(holder) })
	order := slices.SortedFunc(maps.Keys(held), func(x, y string) int {
		_, blindX := a.proof.blind[x]
		_, blindY := a.proof.blind[y]
		switch {
		case a.proof.looked[x] != a.proof.looked[y]:
			return cmp.Compare(a.proof.looked[x], a.proof.looked[y])
		case blindX == blindY:
			return strings.Compare(x, y)
		case blindX:
			return 1
		}
		return -1
	})
	if a.proof.looked == nil {
		a.proof.looked = map[string]int{}
	}
	for _, holder := range order[:min(looks, len(order))] {
		a.proof.looked[holder]++
		part := strings.SplitN(holder, "/", 3)
		sight, err := a.opts.CDI.Containers.Look(ctx, part[0], part[1], part[2], held[holder])
		switch {
		case err != nil:
			klog.FromContext(ctx).V(2).Info("Cannot look into a container", "container", holder, "cause", err.Error())
		case !sight.Judged:
		case sight.Lacks == "":
			a.proof = proof{done: true}
			return
		default:
			if a.proof.blind == nil {
				a.proof.blind = map[string]string{}
			}
			a.proof.blind[holder] = sight.Lacks
		}
	}
}

// holdersOf lists the GPUs, by minor number, of containers whose pod the kubelet names.
func holdersOf(o observation) map[string][]int {
	minors := map[string]int{}
	for _, g := range o.node.GPUs {
		if g.Fault != nil {
			continue // its node may be gone
		}
		minors[g.UUID] = g.Minor
		for _, i := range g.MIG.Instances {
			minors[i.UUID] = g.Minor
		}
	}
	held := map[string][]int{}
	for _, x := range o.usage.Allocations {
		minor, ours := minors[timeslice.DeviceOf(x.ID)]
		if ours && namesPod(x) && !slices.Contains(held[x.Holder], minor) {
			held[x.Holder] = append(held[x.Holder], minor)
		}
	}
	return held
}

// namesPod tells "namespace/pod/container" from "pod UID/container", which only the checkpoint knows.
func namesPod(x kubelet.Allocation) bool { return strings.Count(x.Holder, "/") == 2 }

// SetRuntime tells the container runtime of this node with its version.
func (a *Agent) SetRuntime(version string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.input.runtime != version {
		a.input.runtime = version
		a.Kick()
	}
}
