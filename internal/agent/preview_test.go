// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuslice/internal/agent"
	"gpuslice/internal/config"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
)

// A preview names the devices that the machine really has once the agent has done its work, and changes nothing itself.
func TestPreviewComesTrue(t *testing.T) {
	dra := func(layouts string) string {
		return head + layouts + "nodes: [{gpus: [{layout: it, serve: dra}]}]\n"
	}
	configs := []string{
		head,
		dra("layouts: {it: {mig: {fill: 1g}}}\n"),
		dra("layouts: {it: {mig: {slots: [3g.40gb@4, 2g.20gb@0]}}}\n"),
		dra("layouts: {it: {mig: {instances: {7g.80gb: 2}}}}\n"), // does not fit: the GPU keeps what it has
		dra("layouts: {it: {mig: {fill: balanced}}}\n"),
	}
	n := newNode(t, "2xh100-sxm5-80gb,1xl40s")
	n.apis = []agent.API{agent.DRA}
	n.start()
	for _, text := range configs {
		c, err := config.Load("config.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		before := n.machine.Dump()
		node, err := devices.New(n.machine.Open(sim.Admin("admin")), devices.Options{}).Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		preview := agent.Preview(agent.Config{Sharing: c}, agent.Options{NodeName: "n1", APIs: n.apis}, nil, node, agent.Usage{})
		if after := n.machine.Dump(); after != before {
			t.Fatalf("a preview changed the machine from\n%s\nto\n%s", before, after)
		}
		n.machine.CloseClient("admin")
		n.apply(text)
		view, _ := n.View()
		if diff := cmp.Diff(names(view.Devices), names(preview.Devices)); diff != "" {
			t.Errorf("%s\n%s", text, diff)
		}
		if n := slices.IndexFunc(preview.Devices, func(d agent.Device) bool {
			return d.UUID != "" && !slices.ContainsFunc(view.Devices, func(v agent.Device) bool { return v.UUID == d.UUID })
		}); n >= 0 {
			t.Errorf("%s\n%s has a UUID that nobody gave it: %s", text, preview.Devices[n].Name, preview.Devices[n].UUID)
		}
	}
}

func names(list []agent.Device) []string {
	all := []string{}
	for _, d := range list {
		all = append(all, d.Name)
	}
	return all
}
