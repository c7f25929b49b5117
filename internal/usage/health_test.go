// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package usage_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuslice/internal/agent"
	"gpuslice/internal/usage"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/health"
)

type views struct{ view *agent.View }

func (v *views) View() (*agent.View, <-chan struct{}) { return v.view, nil }

// scrape returns the series without comments.
func scrape(t *testing.T, v *agent.View) string {
	t.Helper()
	answer := httptest.NewRecorder()
	usage.Handler(usage.NewHealth(&views{v})).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	if answer.Code != 200 {
		t.Fatalf("status %d: %s", answer.Code, answer.Body)
	}
	lines := []string{}
	for line := range strings.Lines(answer.Body.String()) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// H08, H15: what is sick, what is free, how GPUs are watched and what was reported can be read, and goes with the GPU that it is about.
func TestHealthMetrics(t *testing.T) {
	sick, polled := devices.GPU{UUID: "GPU-0", Minor: 0}, devices.GPU{UUID: "GPU-1", Minor: 1, Polled: true}
	state := health.State{
		Faults: []health.Fault{{Source: health.XID, XID: 95, GI: 3, Class: health.Reset}, {Source: health.Unreachable, GI: health.Whole, Class: health.Reboot}},
		Counts: []health.Count{{Source: health.XID, XID: 95, N: 1000}, {Source: health.Throttle, N: 7}},
	}
	v := &agent.View{
		Targets: []agent.Target{{GPU: sick, Health: state}, {GPU: polled}, {GPU: devices.GPU{}}},
		Devices: []agent.Device{
			{GPU: sick, UUID: "GPU-0", Name: "gpu-0", Resource: "nvidia.com/gpu", API: agent.DevicePlugin, Fault: "off the bus"},
			{GPU: polled, UUID: "GPU-1", Name: "gpu-1", Resource: "nvidia.com/gpu", API: agent.DRA, Pending: "its neighbour"},
		},
		Free: map[string]int{"nvidia.com/gpu": 0},
	}
	want := `gpuslice_device_healthy{api="device-plugin",device="gpu-0",gpu="gpu-0",resource="nvidia.com/gpu",uuid="GPU-0"} 0
gpuslice_device_healthy{api="dra",device="gpu-1",gpu="gpu-1",resource="nvidia.com/gpu",uuid="GPU-1"} 1
gpuslice_gpu_fault{gpu="gpu-0",instance="",needs="reboot",source="unreachable",uuid="GPU-0",xid=""} 1
gpuslice_gpu_fault{gpu="gpu-0",instance="3",needs="reset",source="xid",uuid="GPU-0",xid="95"} 1
gpuslice_gpu_health_monitor{gpu="gpu-0",mode="events",uuid="GPU-0"} 1
gpuslice_gpu_health_monitor{gpu="gpu-1",mode="poll",uuid="GPU-1"} 1
gpuslice_gpu_health_reports_total{gpu="gpu-0",source="throttle",uuid="GPU-0",xid=""} 7
gpuslice_gpu_health_reports_total{gpu="gpu-0",source="xid",uuid="GPU-0",xid="95"} 1000
gpuslice_resource_free{resource="nvidia.com/gpu"} 0
`
	if diff := cmp.Diff(want, scrape(t, v)); diff != "" {
		t.Error(diff)
	}
	for _, none := range []*agent.View{nil, {}} {
		if got := scrape(t, none); got != "" {
			t.Errorf("series of GPUs that are not there: %s", got)
		}
	}
}

// P3: two devices that a driver calls the same, or a name that is no text, do not spoil the series of the others.
func TestOddNamesSpoilNothing(t *testing.T) {
	d, odd := agent.Device{UUID: "GPU-0", Name: "gpu-0"}, agent.Device{UUID: "GPU-\xff", Name: "gpu-1"}
	want := `gpuslice_device_healthy{api="",device="gpu-0",gpu="gpu-0",resource="",uuid="GPU-0"} 1
gpuslice_device_healthy{api="",device="gpu-1",gpu="gpu-0",resource="",uuid="GPU-?"} 1
`
	if diff := cmp.Diff(want, scrape(t, &agent.View{Devices: []agent.Device{d, d, odd}})); diff != "" {
		t.Error(diff)
	}
}

// docs/metrics.md is what the definitions say.
func TestMetricsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range usage.Definitions() {
		if row := fmt.Sprintf("| `%s` | %s | %s |", d.Name, strings.Join(d.Labels, ", "), d.Help); !strings.Contains(string(text), row) {
			t.Errorf("docs/metrics.md lacks the row\n%s", row)
		}
	}
}
