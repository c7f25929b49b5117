// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package features_test

import (
	"strings"
	"testing"

	"gpuslice/internal/agent"
	"gpuslice/internal/features"
	"gpuslice/pkg/devices"
)

// H07, H08: one GPU whose events are not told makes the node one that is polled; where there is no GPU there is nothing to watch.
func TestMonitorLabel(t *testing.T) {
	told, polled := devices.GPU{UUID: "GPU-0", PCI: "0000:10:00.0"}, devices.GPU{UUID: "GPU-1", PCI: "0000:18:00.0", Polled: true}
	for _, tc := range []struct {
		name string
		gpus []devices.GPU
		want string
	}{
		{"events", []devices.GPU{told}, "gpuslice.dev/health-monitor=events"},
		{"one is polled", []devices.GPU{told, polled}, "gpuslice.dev/health-monitor=poll"},
		{"no GPU", nil, ""},
	} {
		v := &agent.View{}
		for _, g := range tc.gpus {
			v.Targets = append(v.Targets, agent.Target{GPU: g})
		}
		got := ""
		for line := range strings.Lines(string(features.Of(v, features.Host{}).Others)) {
			if strings.HasPrefix(line, features.MonitorLabel) {
				got = strings.TrimSpace(line)
			}
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
