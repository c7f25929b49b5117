// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gpuslice/test/stage"
)

const (
	trainer, alice, bob, researcher, bystander = "trainer", "alice", "bob", "researcher", "bystander"
)

// checks is the story in order. Expected values come from the config; got values are read where the title says.
var checks = []check{
	{
		title: "node allocatable, from the API server",
		act: func(ctx context.Context, d *demo) error {
			if err := d.DeviceClasses(ctx, "deployments/deviceclasses"); err != nil {
				return err
			}
			if err := d.Configure(ctx, d.story.Config); err != nil {
				return err
			}
			return d.StartAgent(ctx)
		},
		spoil: func(_ context.Context, d *demo) error {
			return d.Driver.Machine().Lose(d.before.gpuOf[d.story.Busy])
		},
		look: func(ctx context.Context, d *demo) (string, string, error) { return d.allocatable(ctx, d.before) },
	},
	{
		title: "devices in ResourceSlices, from the API server",
		spoil: func(ctx context.Context, d *demo) error {
			return d.Configure(ctx, strings.ReplaceAll(d.story.Config, "serve: dra", "serve: none"))
		},
		look: func(ctx context.Context, d *demo) (string, string, error) {
			got, err := d.Published(ctx)
			return strings.Join(d.before.devices, " "), strings.Join(got, " "), err
		},
	},
	{
		title: "what the container of a pod with one slice sees, from inside",
		act: func(ctx context.Context, d *demo) error {
			return d.Run(ctx, stage.Workload{Name: trainer, Resource: d.story.Busy})
		},
		spoil: func(ctx context.Context, d *demo) error { return d.replace(ctx, trainer, "") },
		look: func(ctx context.Context, d *demo) (string, string, error) {
			return d.sees(ctx, trainer, d.before.gpuOf[d.story.Busy], profileOf(d.story.Busy))
		},
	},
	{
		title: "what the first of two sharers sees, from inside",
		act: func(ctx context.Context, d *demo) error {
			return d.Run(ctx, stage.Workload{Name: alice, Resource: d.story.Shared})
		},
		spoil: func(ctx context.Context, d *demo) error { return d.replace(ctx, alice, d.otherResource()) },
		look: func(ctx context.Context, d *demo) (string, string, error) {
			return d.sees(ctx, alice, d.before.gpuOf[d.story.Shared], "")
		},
	},
	{
		title: "what the second of two sharers sees, from inside",
		act: func(ctx context.Context, d *demo) error {
			return d.Run(ctx, stage.Workload{Name: bob, Resource: d.story.Shared})
		},
		spoil: func(ctx context.Context, d *demo) error { return d.replace(ctx, bob, "") },
		look: func(ctx context.Context, d *demo) (string, string, error) {
			return d.sees(ctx, bob, d.before.gpuOf[d.story.Shared], "")
		},
	},
	{
		title: "what the container of a pod with a ResourceClaim sees, from inside",
		act: func(ctx context.Context, d *demo) error {
			if err := d.Claim(ctx, "big-gpu", d.story.Claim.Class, d.story.Claim.Selector); err != nil {
				return err
			}
			return d.Run(ctx, stage.Workload{Name: researcher, Claim: "big-gpu"})
		},
		spoil: func(ctx context.Context, d *demo) error { return d.replace(ctx, researcher, "") },
		look: func(ctx context.Context, d *demo) (string, string, error) {
			var index int
			if _, err := fmt.Sscanf(d.before.devices[0], "gpu-%d", &index); err != nil {
				return "", "", err
			}
			return d.sees(ctx, researcher, index, "")
		},
	},
	{
		title: "NVIDIA device nodes in a pod that asked for nothing, from inside",
		act: func(ctx context.Context, d *demo) error {
			return d.Run(ctx, stage.Workload{Name: bystander})
		},
		spoil: func(ctx context.Context, d *demo) error { return d.replace(ctx, bystander, d.story.Shared) },
		look: func(ctx context.Context, d *demo) (string, string, error) {
			got, err := d.Nodes(ctx, bystander)
			return "none", orNone(got), err
		},
	},
	{
		title: "node allocatable after the edit, while the slice is in use",
		act: func(ctx context.Context, d *demo) error {
			d.busySlice = d.slot(d.before.gpuOf[d.story.Busy], profileOf(d.story.Busy))
			fmt.Printf("    the config becomes\n%s", indent(d.story.Edit))
			return d.Configure(ctx, d.story.Edit)
		},
		spoil: func(ctx context.Context, d *demo) error { return d.Configure(ctx, d.story.Config) },
		look:  func(ctx context.Context, d *demo) (string, string, error) { return d.allocatable(ctx, d.after) },
	},
	{
		title: "the slice in use: slot and UUID, from the driver, and restarts of its pod, from the API server",
		spoil: func(ctx context.Context, d *demo) error { return d.replace(ctx, trainer, d.story.Shared) },
		look: func(ctx context.Context, d *demo) (string, string, error) {
			inside, err := d.Sees(ctx, trainer)
			if err != nil {
				return "", "", err
			}
			now := d.slot(d.before.gpuOf[d.story.Busy], profileOf(d.story.Busy))
			restarts, err := d.restarts(ctx, trainer)
			_, uuid, _ := strings.Cut(d.busySlice, " ")
			if !slices.Contains(inside, uuid) {
				now = "not seen by the pod"
			}
			return d.busySlice + ", 0 restarts", fmt.Sprintf("%s, %d restarts", now, restarts), err
		},
	},
	{
		title: "answer to a config with a mistake, from the Node's condition",
		act: func(ctx context.Context, d *demo) error {
			d.machineBefore = d.Driver.Machine().Dump()
			fmt.Printf("    the config becomes\n%s", indent(d.story.Mistake))
			return d.Configure(ctx, d.story.Mistake)
		},
		spoil: func(ctx context.Context, d *demo) error { return d.Configure(ctx, d.story.Edit) },
		look: func(ctx context.Context, d *demo) (string, string, error) {
			c, err := d.Condition(ctx)
			if err != nil {
				return "", "", err
			}
			got := c.Reason + ": " + c.Message
			if strings.Contains(c.Message, d.story.Refusal) {
				fmt.Printf("    it says %q\n", c.Message)
				got = "ConfigInvalid: ... " + d.story.Refusal
			}
			return "ConfigInvalid: ... " + d.story.Refusal, got, nil
		},
	},
	{
		title: "nothing has changed: node allocatable",
		spoil: func(_ context.Context, d *demo) error { return d.Driver.Machine().Lose(d.before.gpuOf[d.story.Shared]) },
		look:  func(ctx context.Context, d *demo) (string, string, error) { return d.allocatable(ctx, d.after) },
	},
	{
		title: "nothing has changed: instances, from the driver",
		spoil: func(ctx context.Context, d *demo) error {
			if err := d.DeletePods(ctx); err != nil {
				return err
			}
			return d.Configure(ctx, "apiVersion: gpuslice.dev/v1alpha1\nkind: SharingConfig\nnodes: [{gpus: [{layout: whole}]}]\n")
		},
		look: func(_ context.Context, d *demo) (string, string, error) {
			return oneLine(d.machineBefore), oneLine(d.Driver.Machine().Dump()), nil
		},
	},
}

func (d *demo) allocatable(ctx context.Context, e expected) (want, got string, err error) {
	now, err := d.Allocatable(ctx)
	return counts(e.resources), counts(now), err
}

func counts(m map[string]int64) string {
	parts := []string{}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s=%d", name, m[name]))
	}
	return strings.Join(parts, " ")
}

// sees compares what a container's driver library shows with the one device that the pod may have. For a slice the library
// lists the GPU above it, as it does on real hardware.
func (d *demo) sees(ctx context.Context, pod string, gpu int, profile string) (want, got string, err error) {
	inside, err := d.Sees(ctx, pod)
	if err != nil {
		return "", "", err
	}
	expected := []string{d.gpu(gpu)}
	if profile != "" {
		_, uuid, _ := strings.Cut(d.slot(gpu, profile), " ")
		expected = append(expected, uuid)
	}
	return strings.Join(expected, " "), orNone(inside), nil
}

func (d *demo) gpu(number int) string {
	for _, g := range d.Driver.Machine().GPUs() {
		if g.Number == number {
			return g.UUID
		}
	}
	return ""
}

// slot is the slot and UUID of the one instance of a profile on a GPU, by the driver's own account.
func (d *demo) slot(gpu int, profile string) string {
	for _, g := range d.Driver.Machine().GPUs() {
		for _, i := range g.Instances {
			if g.Number == gpu && strings.HasPrefix(i.Slot, profile+"@") {
				return strings.TrimSuffix(i.Slot, "*") + " " + i.UUID
			}
		}
	}
	return ""
}

func profileOf(resource string) string { return strings.TrimPrefix(resource, "nvidia.com/mig-") }

func (d *demo) restarts(ctx context.Context, pod string) (int32, error) {
	p, err := d.Client.CoreV1().Pods(stage.Namespace).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return 0, err
	}
	if len(p.Status.ContainerStatuses) != 1 {
		return 0, fmt.Errorf("pod %s has %d containers", pod, len(p.Status.ContainerStatuses))
	}
	return p.Status.ContainerStatuses[0].RestartCount, nil
}

// replace puts another pod in a pod's place.
func (d *demo) replace(ctx context.Context, pod, resource string) error {
	if err := d.DeletePod(ctx, stage.Namespace, pod); err != nil {
		return err
	}
	return d.Run(ctx, stage.Workload{Name: pod, Resource: resource})
}

// otherResource is one that is neither the shared nor the busy one.
func (d *demo) otherResource() string {
	for _, name := range slices.Sorted(maps.Keys(d.before.resources)) {
		if name != d.story.Shared && name != d.story.Busy {
			return name
		}
	}
	return ""
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, " ")
}

func oneLine(text string) string {
	return strings.Join(strings.Split(strings.TrimSpace(text), "\n"), "; ")
}
