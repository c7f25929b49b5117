// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package features_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuslice/internal/agent"
	"gpuslice/internal/config"
	"gpuslice/internal/config/nvidia"
	"gpuslice/internal/features"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
)

var bothAPIs = []agent.API{agent.DevicePlugin, agent.DRA}

// nodeOf reads a simulated machine.
func nodeOf(t testing.TB, machine string) devices.Node {
	t.Helper()
	parse := sim.Parse
	if strings.Contains(machine, "\n") { // a machine file
		parse = func(text string) (*sim.Machine, error) { return sim.ParseYAML([]byte(text)) }
	}
	m, err := parse(machine)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	n, err := devices.New(m.Open(sim.Admin("test")), devices.Options{Program: m.Program(), Holders: m.HoldersFor("test"), Platforms: m.Host(), SystemMemory: m.Host().SystemMemory}).Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// sharing is a SharingConfig whose rules for GPUs are given.
func sharing(t testing.TB, gpus string) agent.Config {
	t.Helper()
	text := "apiVersion: gpuslice.dev/v1alpha1\nkind: SharingConfig\nlayouts:\n" +
		"  four: {timeSlicing: {replicas: 4}}\n  renamed: {timeSlicing: {replicas: 4, rename: true}}\n" +
		"  halves: {mig: {slots: [3g.40gb@0, 3g.40gb@4]}}\n" +
		"  sharedHalves: {mig: {slots: [3g.40gb@0, 3g.40gb@4]}, timeSlicing: {replicas: 2}}\n" +
		"nodes: [{gpus: [" + gpus + "]}]\n"
	c, err := config.Admit("config.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return agent.Config{Sharing: c}
}

// plugin is a config of NVIDIA's device plugin.
func plugin(t testing.TB, text string) agent.Config {
	t.Helper()
	c, _, err := nvidia.LoadDevicePlugin("dp", []byte("version: v1\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	return agent.Config{Sharing: config.Sharing{NVIDIA: &config.NVIDIA{DevicePluginConfig: "dp"}}, DevicePlugin: &c}
}

// view is what an agent offers of a node once a config is carried out.
func view(c agent.Config, n devices.Node, apis ...agent.API) *agent.View {
	if len(apis) == 0 {
		apis = bothAPIs
	}
	v := agent.Preview(c, agent.Options{NodeName: "n1", APIs: apis}, nil, n, agent.Usage{})
	return &v
}

func labelsOf(v *agent.View, host features.Host) map[string]string {
	return features.Of(v, host).Over(nil)
}

// host knows every GPU of a node as one of a class, and no vGPU.
func host(n devices.Node, class uint32) features.Host {
	h := features.Host{Machine: "PowerEdge XE9680", PCI: map[string]features.PCI{}}
	for _, g := range n.GPUs {
		h.PCI[g.PCI] = features.PCI{Class: class, VGPU: &devices.VGPUMark{}}
	}
	return h
}

// parse reads labels as the goldens have them, one a line.
func parse(text string) map[string]string {
	labels := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, found := strings.Cut(strings.TrimSpace(line), "="); found {
			labels[key] = value
		}
	}
	return labels
}

// has compares some labels; a value "-" is a label that shall not be.
func has(t *testing.T, why string, got map[string]string, want string) {
	t.Helper()
	expected, found := parse(want), map[string]string{}
	for key := range expected {
		if value, labelled := got[key]; labelled {
			found[key] = value
		}
	}
	maps.DeleteFunc(expected, func(_, value string) bool { return value == "-" })
	if diff := cmp.Diff(expected, found); diff != "" {
		t.Errorf("%s (-want +got):\n%s", why, diff)
	}
}
