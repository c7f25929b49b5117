// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"gpuslice/pkg/devices"
)

// ReleaseAnnotation names the GPUs of a Node that the agent shall keep its hands off: "all", or UUIDs, PCI addresses, names such
// as gpu-0 or indexes with commas.
const ReleaseAnnotation = "gpuslice.dev/release"

// pauseLabels are how NVIDIA's driver manager asks the clients of a driver to let go of it.
var pauseLabels = []string{"nvidia.com/gpu.deploy.device-plugin", "nvidia.com/gpu.deploy.dra-driver", "nvidia.com/gpu.deploy.client"}

const pausedForDriver = "paused-for-driver-upgrade"

// released says which GPUs the admin wants released and why, by PCI address; devices.AllGPUs stands for every one. Names that
// fit no GPU come back as unknown.
func released(labels, annotations map[string]string, gpus []devices.GPU) (why map[string]string, unknown []string) {
	why = map[string]string{}
	for _, key := range pauseLabels {
		if labels[key] == pausedForDriver {
			why[devices.AllGPUs] = fmt.Sprintf("node label %s=%s", key, pausedForDriver)
			return why, nil
		}
	}
	for name := range strings.SplitSeq(annotations[ReleaseAnnotation], ",") {
		name = strings.TrimSpace(name)
		reason := fmt.Sprintf("node annotation %s names it", ReleaseAnnotation)
		i := slices.IndexFunc(gpus, func(g devices.GPU) bool { return isCalled(g, name) })
		switch {
		case name == "":
		case name == "all":
			why[devices.AllGPUs] = reason
		case i >= 0:
			why[gpus[i].PCI] = reason
		default:
			unknown = append(unknown, name)
		}
	}
	return why, unknown
}

func isCalled(g devices.GPU, name string) bool {
	return slices.Contains([]string{g.UUID, g.PCI, g.Name(), strconv.Itoa(g.Index)}, name)
}

// lookReleased reads the node with the GPUs released that the admin wants so. At the first look nobody knows yet which GPUs the
// names mean: it is taken again at once, before anything is decided.
func (a *Agent) lookReleased(ctx context.Context, o *observation, read reader) {
	first := len(a.lastNode.GPUs) == 0
	o.problems = a.release(ctx, o.input)
	a.readNode(ctx, o, read)
	if first && len(o.node.GPUs) > 0 && o.input.annotations[ReleaseAnnotation] != "" {
		o.problems = a.release(ctx, o.input)
		a.readNode(ctx, o, read)
	}
	why, _ := released(o.input.labels, o.input.annotations, nil)
	o.unseen = len(o.node.GPUs) == 0 && (o.noNode != nil || why[devices.AllGPUs] != "")
	if why[devices.AllGPUs] != "" && o.unseen {
		o.problems = append(o.problems, Problem{Reason: ReasonReleased, Message: fmt.Sprintf(
			"released: %s; this process has not seen the GPUs of this node yet, so nothing new is offered", why[devices.AllGPUs])})
	}
}

// release lets go of what the admin wants released, and takes back what is no longer wanted so.
func (a *Agent) release(ctx context.Context, in input) []Problem {
	why, unknown := released(in.labels, in.annotations, a.lastNode.GPUs)
	idle, looking := a.ledger.letGo(a.opts.Peek, time.Now())
	if looking {
		a.Kick()
	}
	for pci, reason := range idle {
		if why[pci] == "" && why[devices.AllGPUs] == "" {
			why[pci] = reason
		}
	}
	var problems []Problem
	for _, name := range unknown {
		problems = append(problems, Problem{Reason: ReasonReleased, Message: fmt.Sprintf(
			"annotation %s: no GPU is called %q; there are %s", ReleaseAnnotation, name, gpuNames(a.lastNode.GPUs))})
	}
	if err := a.hw.SetReleased(ctx, why); err != nil {
		klog.FromContext(ctx).Error(err, "GPUs not released; trying again")
		problems = append(problems, Problem{Reason: ReasonReleased, Message: "not released yet: " + err.Error()})
	}
	return problems
}

func gpuNames(gpus []devices.GPU) string {
	names := []string{"all"}
	for _, g := range gpus {
		names = append(names, g.Name())
	}
	return strings.Join(names, ", ")
}

// SetAnnotations tells the annotations of this node, of which some ask something of the agent; they hold over restarts.
func (a *Agent) SetAnnotations(annotations map[string]string) error {
	asked := map[string]string{}
	for _, key := range []string{ReleaseAnnotation, FaultAnnotation, ClearAnnotation} {
		if value := annotations[key]; value != "" {
			asked[key] = value
		}
	}
	a.mu.Lock()
	same := maps.Equal(a.input.annotations, asked)
	a.mu.Unlock()
	if same {
		return nil
	}
	if err := a.store.SaveAnnotations(asked); err != nil {
		return fmt.Errorf("keep annotations: %w", err)
	}
	a.mu.Lock()
	a.input.annotations = asked
	a.mu.Unlock()
	a.Kick()
	return nil
}
