// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"gpuslice/test/cluster/node"
)

// gpuLabels are the labels of the Node that are the agent's.
func (s *scene) gpuLabels(ctx context.Context) (map[string]string, error) {
	n, err := s.Client.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return gpuLabelsOf(n), nil
}

func gpuLabelsOf(n *corev1.Node) map[string]string {
	ours := maps.Clone(n.Labels)
	maps.DeleteFunc(ours, func(key, _ string) bool {
		return !strings.HasPrefix(key, "gpuslice.dev/") && !strings.HasPrefix(key, "nvidia.com/")
	})
	return ours
}

// isLabelled wants these labels among those of the Node; "" is a label that shall not be.
func (s *scene) isLabelled(want map[string]string) {
	s.t.Helper()
	s.within(soon, "labels", func(ctx context.Context) error {
		got, err := s.gpuLabels(ctx)
		for key, value := range want {
			if got[key] != value {
				err = errors.Join(err, fmt.Errorf("%s is %q, want %q", key, got[key], value))
			}
		}
		return err
	})
}

// patchLabels writes labels as another manager; nil takes one away.
func (s *scene) patchLabels(manager string, labels map[string]any) {
	s.t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	s.must(err)
	_, err = s.Client.CoreV1().Nodes().Patch(s.t.Context(), node.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager})
	s.must(err)
}

// L04, L05, M21: on a real API server every name of a driver becomes labels that it takes; they say what the node offers, change with
// the config and not with the health of GPUs, survive a restart without one being taken away, and come back when somebody strips them.
func TestNodeLabels(t *testing.T) {
	odd := strings.Repeat("ä/[0] ", 11) + "-"
	machine := filepath.Join(t.TempDir(), "machine.yaml")
	if err := os.WriteFile(machine, fmt.Appendf(nil, `
models: {odd: {name: %q, architecture: 9, computeCapability: "9.0", memoryMiB: 8192, sms: 8, memorySlices: 1, computeSlices: 1}}
gpus:
- {model: h100-sxm5-80gb, count: 2}
- {model: odd}
`, odd), 0o600); err != nil {
		t.Fatal(err)
	}
	s := begin(t, "@"+machine, config+"nodes: [{gpus: [{select: {index: 0}, layout: all-1g}, {layout: whole}]}]\n")
	want := map[string]string{
		"gpuslice.dev/mode": "mixed", "nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "2",
		"gpuslice.dev/gpu.count.full": "2", "gpuslice.dev/gpu.count.mig": "1", "nvidia.com/mig-1g.10gb.count": "7", "gpuslice.dev/gpu.model": "h100",
		"gpuslice.dev/health-monitor": "events",
	}
	s.isLabelled(want)
	before, err := s.gpuLabels(t.Context())
	s.must(err)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watching, err := s.Client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", node.Name).String()})
	s.must(err)
	s.ctl("xid", "1", "79", "action=reboot")
	s.unhealthy("1/3")
	s.must(s.KillAgent(t.Context()))
	s.must(s.StartAgent(t.Context()))
	s.unhealthy("1/3")
	s.must(s.Annotate(t.Context(), "gpuslice.dev/clear-fault", s.uuid(1, "")))
	t.Cleanup(func() { s.must(s.Annotate(context.WithoutCancel(t.Context()), "gpuslice.dev/clear-fault", "")) })
	s.ctl("sign", "1", "recovery-action", "none")
	s.unhealthy("0/3")
	seen := 0
	for done := false; !done; {
		select {
		case e := <-watching.ResultChan():
			n, isNode := e.Object.(*corev1.Node)
			if !isNode || e.Type != watch.Modified && e.Type != watch.Added {
				continue
			}
			seen++
			if diff := cmp.Diff(before, gpuLabelsOf(n)); diff != "" {
				t.Errorf("labels changed with the health or in a restart (-before +then):\n%s", diff)
				done = true
			}
		default:
			done = true
		}
	}
	if seen == 0 {
		t.Error("the Node was not seen to change")
	}

	strip := map[string]any{}
	for key := range before {
		strip[key] = nil
	}
	s.patchLabels("nfd-master", strip)
	s.isLabelled(want)
	s.offers(map[string]int64{"nvidia.com/mig-1g.10gb": 7, "nvidia.com/gpu": 2})

	s.patchLabels("nfd-master", map[string]any{"nvidia.com/gpu.count": "7"})
	s.within(soon, "condition names who writes it too", func(ctx context.Context) error {
		c, err := s.Condition(ctx)
		if err == nil && (c.Status != corev1.ConditionTrue || !strings.Contains(c.Message, `"nfd-master" holds nvidia.com/gpu.count`)) {
			err = fmt.Errorf("%s %s", c.Status, c.Message)
		}
		return err
	})
	s.must(s.Configure(t.Context(), config+"nodes: [{gpus: [{layout: whole}]}]\n"))
	s.isLabelled(map[string]string{"gpuslice.dev/mode": "whole", "nvidia.com/mig-1g.10gb.count": "", "nvidia.com/gpu.count": "7", "gpuslice.dev/gpu.count.full": "3"})
	s.patchLabels("nfd-master", map[string]any{"nvidia.com/gpu.count": nil})
	s.isLabelled(map[string]string{"nvidia.com/gpu.count": "2"})
}
