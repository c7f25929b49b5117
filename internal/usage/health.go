// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package usage

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"gpuslice/internal/agent"
	"gpuslice/pkg/health"
)

// Agent is what is measured.
type Agent interface {
	View() (*agent.View, <-chan struct{})
}

// Definition is a metric as docs/metrics.md documents it.
type Definition struct {
	Name, Help string
	Labels     []string
}

var (
	deviceHealthy = Definition{"gpuslice_device_healthy", "1 while the device can be given out for its health, 0 while it cannot; a GPU that waits for a reset of its own neighbour's is 1.", []string{"gpu", "device", "uuid", "resource", "api"}}
	resourceFree  = Definition{"gpuslice_resource_free", "Ids of a device-plugin resource that are healthy and that nobody holds; never below 0.", []string{"resource"}}
	gpuFault      = Definition{"gpuslice_gpu_fault", "1 for each fault of a GPU for which no evidence has been seen; needs is reset or reboot, instance the driver's id or empty for all of the GPU.", []string{"gpu", "uuid", "source", "xid", "instance", "needs"}}
	healthReports = Definition{"gpuslice_gpu_health_reports_total", "Reports about the health of a GPU, faults or not.", []string{"gpu", "uuid", "source", "xid"}}
	healthMonitor = Definition{"gpuslice_gpu_health_monitor", "1 for how the GPU is watched: events, or poll where the driver tells none.", []string{"gpu", "uuid", "mode"}}
)

// Definitions are all metrics of this package.
func Definitions() []Definition {
	return []Definition{deviceHealthy, resourceFree, gpuFault, healthReports, healthMonitor}
}

// Table is the metrics for docs/metrics.md.
func Table() []byte {
	var b bytes.Buffer
	b.WriteString("| metric | labels | means |\n|---|---|---|\n")
	for _, d := range Definitions() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", d.Name, strings.Join(d.Labels, ", "), d.Help)
	}
	return b.Bytes()
}

func (d Definition) desc() *prometheus.Desc {
	return prometheus.NewDesc(d.Name, d.Help, d.Labels, nil)
}

// Health collects the health of devices.
type Health struct{ agent Agent }

// NewHealth measures an agent.
func NewHealth(a Agent) Health { return Health{a} }

// Describe implements prometheus.Collector.
func (h Health) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range Definitions() {
		descs <- d.desc()
	}
}

// Collect implements prometheus.Collector; before the first view there is nothing to be said.
func (h Health) Collect(metrics chan<- prometheus.Metric) {
	v, _ := h.agent.View()
	if v == nil {
		return
	}
	told := map[string]bool{}
	add := func(d Definition, kind prometheus.ValueType, value float64, labels ...string) {
		for i := range labels {
			labels[i] = strings.ToValidUTF8(labels[i], "?")
		}
		key := d.Name + "\x00" + strings.Join(labels, "\x00")
		if m, err := prometheus.NewConstMetric(d.desc(), kind, value, labels...); err == nil && !told[key] {
			told[key] = true // one name twice, or one that cannot be said, must not spoil the rest
			metrics <- m
		}
	}
	for _, d := range v.Devices {
		healthy := 1.0
		if d.Fault != "" {
			healthy = 0
		}
		add(deviceHealthy, prometheus.GaugeValue, healthy, d.GPU.Name(), d.Name, d.UUID, d.Resource, string(d.API))
	}
	for resource, free := range v.Free {
		add(resourceFree, prometheus.GaugeValue, float64(free), resource)
	}
	for _, t := range v.Targets {
		if t.GPU.UUID == "" || t.GPU.Unsupported != nil {
			continue
		}
		collectGPU(t, add)
	}
}

func collectGPU(t agent.Target, add func(Definition, prometheus.ValueType, float64, ...string)) {
	gpu, uuid := t.GPU.Name(), t.GPU.UUID
	for _, f := range t.Health.Faults {
		instance := ""
		if f.GI >= 0 {
			instance = strconv.Itoa(f.GI)
		}
		add(gpuFault, prometheus.GaugeValue, 1, gpu, uuid, string(f.Source), xid(f.Source, f.XID), instance, f.Class.String())
	}
	for _, c := range t.Health.Counts {
		add(healthReports, prometheus.CounterValue, float64(c.N), gpu, uuid, string(c.Source), xid(c.Source, c.XID))
	}
	mode := "events"
	if t.GPU.Polled {
		mode = "poll"
	}
	add(healthMonitor, prometheus.GaugeValue, 1, gpu, uuid, mode)
}

func xid(source health.Source, number uint64) string {
	if source != health.XID {
		return ""
	}
	return strconv.FormatUint(number, 10)
}
