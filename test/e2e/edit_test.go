// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gpuslice/test/cluster/node"
	"gpuslice/test/stage"
)

// shared is GPU 0 offered so many times and GPU 1 whole, both under names of their own.
func shared(replicas int) string {
	return config + fmt.Sprintf("layouts: {it: {timeSlicing: {replicas: %d, rename: true}}}\n", replicas) +
		"nodes: [{gpus: [{select: {index: 0}, layout: it}, {layout: whole}]}]\n"
}

// S04: an edit of the ConfigMap is in the list without a restart, pods are untouched, and the annotation tells which config is
// in force. What did not change is not disturbed: its allocatable is never anything else.
func TestLiveEdit(t *testing.T) {
	s := begin(t, "2xl40s", shared(4))
	s.offers(map[string]int64{"nvidia.com/gpu.shared": 4, "nvidia.com/gpu": 1})
	s.must(s.Run(t.Context(), stage.Workload{Name: "sharer", Resource: "nvidia.com/gpu.shared"}))
	before, err := s.ConfigHash(t.Context())
	s.must(err)
	s.must(s.Configure(t.Context(), shared(8)))
	s.within(soon, "edit to allocatable", func(ctx context.Context) error {
		got, err := s.Allocatable(ctx)
		if err != nil {
			return err
		}
		if got["nvidia.com/gpu"] != 1 {
			return node.Hopeless(fmt.Errorf("the resource that did not change was disturbed: %v", got))
		}
		if got["nvidia.com/gpu.shared"] != 8 {
			return fmt.Errorf("%v", got)
		}
		return nil
	})
	s.within(soon, "another config hash", func(ctx context.Context) error {
		after, err := s.ConfigHash(ctx)
		if err == nil && (after == before || after == "") {
			err = fmt.Errorf("hash %q, was %q", after, before)
		}
		return err
	})
	s.sees("sharer", s.uuid(0, ""))
}

// S06, P5: the ConfigMap goes: the condition names it, the last good config stays in force, also for the next process.
func TestConfigMapGoes(t *testing.T) {
	s := begin(t, "2xl40s", shared(4))
	s.offers(map[string]int64{"nvidia.com/gpu.shared": 4, "nvidia.com/gpu": 1})
	s.must(s.Client.CoreV1().ConfigMaps(stage.Namespace).Delete(t.Context(), stage.ConfigMap, metav1.DeleteOptions{}))
	s.conditionSays("configmap gpuslice/gpuslice-config does not exist")
	s.must(s.KillAgent(t.Context()))
	s.must(s.StartAgent(t.Context()))
	s.conditionSays("configmap gpuslice/gpuslice-config does not exist")
	s.offers(map[string]int64{"nvidia.com/gpu.shared": 4, "nvidia.com/gpu": 1})
	s.must(s.Configure(t.Context(), shared(2)))
	s.offers(map[string]int64{"nvidia.com/gpu.shared": 2, "nvidia.com/gpu": 1})
}

// A canary: the new layout is for nodes with a label, and reaches this one when it gets the label, and leaves it again. Paused,
// it is planned and said, and nothing is applied.
func TestCanaryByLabel(t *testing.T) {
	const canary = config + "layouts: {new: {mig: {fill: 1g}}}\n" +
		"nodes: [{match: {nodeLabels: {canary: 'true'}}, gpus: [{layout: new}]}, {gpus: [{layout: whole}]}]\n"
	s := begin(t, "1xh100-sxm5-80gb", canary)
	s.offers(map[string]int64{"nvidia.com/gpu": 1})
	s.must(s.Label(t.Context(), "canary", "true"))
	defer func() { s.must(s.Label(context.WithoutCancel(t.Context()), "canary", "")) }()
	s.offers(map[string]int64{"nvidia.com/mig-1g.10gb": 7})
	s.must(s.Label(t.Context(), "canary", ""))
	s.offers(map[string]int64{"nvidia.com/gpu": 1})
	tried := len(s.Driver.Machine().Log())
	s.must(s.Configure(t.Context(), config+"layouts: {new: {mig: {fill: 1g}}}\nnodes: [{paused: true, gpus: [{layout: new}]}]\n"))
	s.conditionSays("set mig=on")
	if log := s.Driver.Machine().Log()[tried:]; len(log) > 0 {
		t.Errorf("applied while paused: %v", log)
	}
	s.offers(map[string]int64{"nvidia.com/gpu": 1})
}
