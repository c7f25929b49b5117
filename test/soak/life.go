// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gpuslice/pkg/devices/sim"
	"gpuslice/test/cluster/node"
	"gpuslice/test/stage"
)

// machine is the node's, below the repository.
const machine = "@test/soak/machine.yaml"

// spare is the number of the GPU that no rule is for.
const spare = 3

// config is one that an admin may have, and what the node must offer then, counted by hand.
type config struct {
	text   string
	offers map[string]int64
}

func rules(zero, one, two string) string {
	return "apiVersion: gpuslice.dev/v1alpha1\nkind: SharingConfig\nlayouts: {zero: " + zero + ", one: " + one + ", two: " + two + "}\n" +
		"nodes: [{gpus: [{select: {index: 0}, layout: zero}, {select: {index: 1}, layout: one}, {select: {index: 2}, layout: two}]}]\n"
}

var configs = []config{
	{
		rules("{mig: {instances: {3g.40gb: 1, 1g.10gb: 3}}}", "{timeSlicing: {replicas: 4, rename: true}}", "{}"),
		map[string]int64{"nvidia.com/mig-3g.40gb": 1, "nvidia.com/mig-1g.10gb": 3, "nvidia.com/gpu.shared": 4, "nvidia.com/gpu": 1},
	},
	{
		rules("{mig: {fill: 1g}}", "{}", "{timeSlicing: {replicas: 2, rename: true}}"),
		map[string]int64{"nvidia.com/mig-1g.10gb": 7, "nvidia.com/gpu.shared": 2, "nvidia.com/gpu": 1},
	},
	{
		rules("{mig: {fill: 2g}}", "{mig: {slots: [3g.40gb@4, 2g.20gb@0]}}", "{timeSlicing: {replicas: 3, rename: true, interval: long}}"),
		map[string]int64{"nvidia.com/mig-2g.20gb": 4, "nvidia.com/mig-3g.40gb": 1, "nvidia.com/gpu.shared": 3},
	},
}

// limit is ten times what a change may take on a busy machine.
const limit = 2 * time.Minute

// life is one agent's.
type life struct {
	*stage.Stage
	random *rand.Rand
	counts map[string]int
	plant  string

	config int
	pods   int // ever
	first  footprint
	swell  *balloonProcess
}

// event is something that happens to a node.
type event struct {
	name string
	do   func(*life, context.Context) error
}

var events = []event{
	{"pod", (*life).pod},
	{"edit", (*life).edit},
	{"kubelet restart", (*life).restart},
	{"agent kill", (*life).kill},
	{"agent stop", (*life).stop},
	{"GPU lost", (*life).lose},
}

func (l *life) live(ctx context.Context, rounds int) error {
	if err := l.Configure(ctx, configs[0].text); err != nil {
		return err
	}
	if err := l.StartAgent(ctx); err != nil {
		return err
	}
	for round := range rounds {
		if err := l.round(ctx, round); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}

// round lets a few things happen and then looks.
func (l *life) round(ctx context.Context, number int) error {
	if err := l.pod(ctx); err != nil {
		return fmt.Errorf("pod: %w", err)
	}
	for range 1 + l.random.IntN(3) {
		e := events[l.random.IntN(len(events))]
		l.counts[e.name]++
		if err := e.do(l, ctx); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	if err := l.undisturbed(ctx); err != nil {
		return err
	}
	if err := l.planted(number); err != nil {
		return err
	}
	return l.settle(ctx, number)
}

// pod runs a pod on something that is free, if anything is.
func (l *life) pod(ctx context.Context) error {
	free, err := l.free(ctx)
	if err != nil || len(free) == 0 {
		return err
	}
	l.pods++
	resource := free[l.random.IntN(len(free))]
	return l.Run(ctx, stage.Workload{Name: fmt.Sprintf("pod-%d", l.pods), Resource: resource})
}

// free lists the resources of which some are left, when the node is as configured; while a change is under way anything may
// be about to go.
func (l *life) free(ctx context.Context) ([]string, error) {
	offered, err := l.Allocatable(ctx)
	if err != nil || !maps.Equal(offered, configs[l.config].offers) {
		return nil, err
	}
	pods, err := l.Client.CoreV1().Pods(stage.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, p := range pods.Items {
		for name := range p.Spec.Containers[0].Resources.Limits {
			offered[string(name)]--
		}
	}
	maps.DeleteFunc(offered, func(_ string, left int64) bool { return left <= 0 })
	return slices.Sorted(maps.Keys(offered)), nil
}

func (l *life) edit(ctx context.Context) error {
	l.config = (l.config + 1 + l.random.IntN(len(configs)-1)) % len(configs)
	return l.Configure(ctx, configs[l.config].text)
}

// restart waits until the kubelet has the lists again: until then it refuses pods that were scheduled by what the Node said before,
// which no plugin can help.
func (l *life) restart(ctx context.Context) error {
	return errors.Join(l.RestartKubelet(ctx), l.UntilReady(ctx))
}

func (l *life) kill(ctx context.Context) error {
	return errors.Join(l.KillAgent(ctx), l.StartAgent(ctx))
}

func (l *life) stop(ctx context.Context) error {
	return errors.Join(l.StopAgent(ctx), l.StartAgent(ctx))
}

// lose lets a GPU fall off the bus until the agent has said so, and come back, which an admin vouches for.
func (l *life) lose(ctx context.Context) error {
	number := l.random.IntN(spare)
	if err := l.Driver.Machine().Lose(number); err != nil {
		return err
	}
	err := node.Until(ctx, limit, "condition names the lost GPU", func(ctx context.Context) error {
		c, err := l.Condition(ctx)
		if err == nil && c.Status == "True" {
			err = fmt.Errorf("%s: %s", c.Reason, c.Message)
		}
		return err
	})
	gpus := l.Driver.Machine().GPUs()
	i := slices.IndexFunc(gpus, func(g sim.GPU) bool { return g.Number == number })
	word := fmt.Sprintf("%s=%d", gpus[i].UUID, time.Now().UnixNano()) // another one each time
	return errors.Join(err, l.Driver.Machine().Restore(number), l.Annotate(ctx, "gpuslice.dev/clear-fault", word))
}

// undisturbed wants every pod to run as it began.
func (l *life) undisturbed(ctx context.Context) error {
	pods, err := l.Client.CoreV1().Pods(stage.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, p := range pods.Items {
		if p.Status.Phase != "Running" || len(p.Status.ContainerStatuses) != 1 || p.Status.ContainerStatuses[0].RestartCount > 0 {
			return fmt.Errorf("pod %s is %s: %s", p.Name, p.Status.Phase, p.Status.Message)
		}
	}
	return nil
}
