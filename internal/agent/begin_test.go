// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"gpuslice/internal/agent"
	"gpuslice/internal/config/nvidia"
	"gpuslice/internal/kubelet"
)

// The first look asks how GPUs can be cut only where the config is about that; a little later everything is known everywhere.
func TestFirstLook(t *testing.T) {
	const spec = "gpus:\n- {model: h100-sxm5-80gb}\n- {model: h100-sxm5-80gb}\n"
	for _, tc := range []struct {
		name, why string
		config    string
		labels    map[string]string
		offers    string
		asked     bool
	}{
		{"whole", "nothing is to be cut", head + "nodes: [{gpus: [{layout: whole}]}]\n", nil, "gpu=2", false},
		{"unmanaged", "nothing is to be changed", head, nil, "gpu=2", false},
		{"shares", "whole GPUs are shared", layout("{timeSlicing: {replicas: 2, rename: true}}"), nil, "gpu.shared=4", false},
		{"cut", "the list is of slices", layout("{mig: {fill: 3g}}"), nil, "mig-3g.40gb=4", true},
		{"cut by a label", "the label of mig-parted names a layout", head, map[string]string{nvidia.MIGPartedLabel: "all-disabled"}, "gpu=2", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, spec)
				if err := n.SetConfig("test", []byte(tc.config)); err != nil {
					t.Fatal(err)
				}
				if err := n.SetLabels(tc.labels); err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- n.Run(ctx) }()
				synctest.Wait()
				n.offers(tc.offers)
				if asked := n.machine.Calls("agent")["GIProfile"] > 0; asked != tc.asked {
					t.Errorf("%s: profiles were asked for: %v, want %v", tc.why, asked, tc.asked)
				}
				<-time.After(time.Second)
				synctest.Wait()
				view, _ := n.View()
				for _, g := range view.Node.GPUs {
					if !g.IsMIGCapable() || g.ProfilesUnread {
						t.Errorf("a second later it is not known how %v can be cut", g)
					}
				}
				n.offers(tc.offers)
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				n.machine.Close()
			})
		})
	}
}

// deaf is an API server that takes every question and never answers.
type deaf struct{}

func (deaf) Look(ctx context.Context, _, _, _ string, _ []int) (agent.Sight, error) {
	<-ctx.Done()
	return agent.Sight{}, ctx.Err()
}

// P6, P11: the first list does not wait for the API server, which tells whether devices get into containers; a later pass waits for
// a bounded time.
func TestFirstListWithoutTheAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, "2xl40s")
		n.cdi = &agent.CDI{Dir: "/run/specs", Containers: deaf{}}
		n.start()
		n.kubelet.set(nil, kubelet.Allocation{Resource: "nvidia.com/gpu", ID: n.uuid(0, ""), Holder: "a/trainer/main"})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- n.Run(ctx) }()
		synctest.Wait()
		n.offers("gpu=2")
		before, _ := n.View()
		<-time.After(5 * time.Second)
		if after, _ := n.View(); after.Generation == before.Generation {
			t.Error("no pass has ended in 5 s")
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		n.machine.Close()
	})
}
