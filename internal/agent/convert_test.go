// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuslice/internal/agent"
	"gpuslice/internal/config/nvidia"
)

// What NVIDIA's configs make of a machine and what their conversion makes of an equal one are the same: resources, counts,
// ids, cuts.
func TestConvertedIsWhatIsImported(t *testing.T) {
	const parted = `{version: v1, mig-configs: {
		halves: [{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2}}],
		some: [{devices: [1, 2], mig-enabled: true, mig-devices: {1g.10gb: 2, 3g.40gb: 1}}],
		later: [{devices: all, mig-enabled: true, mig-devices: {7g.80gb: 1}}, {devices: [0], mig-enabled: false}],
		filtered: [{device-filter: 0x233010DE, devices: [0, 1], mig-enabled: true, mig-devices: {2g.20gb: 3}}]}}`
	plugins := []string{
		"",
		"flags: {migStrategy: mixed}\nsharing: {timeSlicing: {resources: [{name: gpu, replicas: 4}]}}",
		"sharing: {timeSlicing: {renameByDefault: true, resources: [{name: gpu, replicas: 2}, {name: mig-1g.10gb, replicas: 3}]}}",
		"sharing: {timeSlicing: {resources: [{name: gpu, devices: [0], rename: few, replicas: 2}, {name: gpu, devices: [2], rename: more, replicas: 5}]}}",
		"sharing: {timeSlicing: {resources: [{name: mig-3g.40gb, replicas: 2}]}}",
		"flags: {migStrategy: single}\nsharing: {timeSlicing: {resources: [{name: gpu, replicas: 2}]}}",
	}
	compared, refused := 0, 0
	for _, selected := range []string{"", "halves", "some", "later", "filtered"} {
		for i, plugin := range plugins {
			in := nvidia.Input{Selected: selected, DevicePluginFile: "p", DevicePlugin: []byte(plugin)}
			config := pluginOnly
			if selected != "" {
				in.MIGPartedFile, in.MIGParted, config = "m", []byte(parted), bothImports
			}
			c, warnings, err := nvidia.Convert(in)
			if err != nil {
				refused++
				continue
			}
			text, err := c.YAML()
			if err != nil {
				t.Fatal(err)
			}
			imported, converted := newNode(t, "3xh100-sxm5-80gb"), newNode(t, "3xh100-sxm5-80gb")
			imported.plugin(map[string]string{"default": plugin})
			imported.parted(parted)
			imported.apply(config)
			imported.choose(migLabel, selected)
			converted.apply(string(text))
			if imported.has(agent.ReasonStrategyMismatch) { // NVIDIA's own tool offers nothing there
				if len(warnings) == 0 {
					t.Errorf("config %q and plugin %d: no warning that GPUs must be cut alike", selected, i)
				}
				continue
			}
			if diff := cmp.Diff(imported.offered(), converted.offered()); diff != "" {
				t.Errorf("config %q and plugin %d (-imported +converted)\n%s\n%s", selected, i, diff, text)
			}
			converted.noProblems()
			compared++
		}
	}
	if compared < 25 {
		t.Errorf("%d pairs were compared, %d refused", compared, refused)
	}
}

func (n *node) has(reason agent.Reason) bool {
	view, _ := n.View()
	return slices.ContainsFunc(view.Problems, func(p agent.Problem) bool { return p.Reason == reason })
}

// offered is the cut of the machine and every id of every list.
func (n *node) offered() []string {
	view, _ := n.View()
	lines := strings.Split(n.machine.Dump(), "\n")
	for _, resource := range view.Resources() {
		for _, l := range view.Lists[resource] {
			lines = append(lines, fmt.Sprint(resource, " ", l.ID, " ", l.Fault))
		}
	}
	return lines
}
