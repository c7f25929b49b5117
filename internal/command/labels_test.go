// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package command_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuslice/internal/agent"
	"gpuslice/internal/config"
	"gpuslice/internal/dra"
	"gpuslice/internal/features"
	"gpuslice/pkg/devices/sim"
)

// M02: a profile has one name: on every model, the profiles that labels name are those of the resources, and those of the
// attributes that claims select by, in the form that names may have.
func TestLabelsNameProfilesAsResourcesDo(t *testing.T) {
	for _, model := range sim.Models() {
		n := snapshot(t, machineOf(t, model))
		n.GPUs = n.GPUs[:1]
		labels, resources, attributes, want := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
		for _, o := range n.GPUs[0].Geometry.Offers() {
			want["mig-"+o.Profile.ResourceSuffix()] = true
			text := fmt.Sprintf("apiVersion: gpuslice.dev/v1alpha1\nkind: SharingConfig\nlayouts: {it: {mig: {slots: [\"%s@%d\"]}}}\nnodes: [{gpus: [{layout: it, reset: when-idle, serve: %%s}]}]\n", o.Profile, o.Starts[0])
			for _, api := range []agent.API{agent.DevicePlugin, agent.DRA} {
				c, err := config.Admit("config.yaml", fmt.Appendf(nil, text, api))
				if err != nil {
					t.Fatal(err)
				}
				v := agent.Preview(agent.Config{Sharing: c}, agent.Options{APIs: []agent.API{agent.DevicePlugin, agent.DRA}}, nil, n, agent.Usage{})
				for key := range features.Of(&v, features.Host{}).Over(nil) {
					if profile, ok := strings.CutSuffix(strings.TrimPrefix(key, "nvidia.com/"), ".product"); ok && profile != "gpu" {
						labels[profile] = true
					}
				}
				for _, d := range v.Devices {
					resources[strings.TrimPrefix(d.Resource, "nvidia.com/")] = true
				}
				for _, s := range dra.Slices(&v, nil) {
					for _, d := range s.Devices {
						if a := d.Attributes["profile"].StringValue; a != nil {
							attributes["mig-"+strings.ReplaceAll(*a, "+", ".")] = true
						}
					}
				}
			}
		}
		for what, got := range map[string]map[string]bool{"labels": labels, "resources": resources, "attributes": attributes} {
			if !maps.Equal(got, want) && len(want) > 0 {
				t.Errorf("%s: profiles of %s (-want +got):\n%s", model, what, cmp.Diff(want, got))
			}
		}
	}
}
