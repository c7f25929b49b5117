// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package dra

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"gpuslice/internal/agent"
	"gpuslice/internal/state"
)

// healthEvery is how often the kubelet hears of every device; what it does not hear of for 30 s it calls unknown.
const healthEvery = 10 * time.Second

// WatchHealthStatus reports every device at once, at each change of the view and every 10 s. Each call looks at the view for
// itself: after a reconnect an old call and a new one overlap.
func (d *Driver) WatchHealthStatus(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	for {
		view, changed := d.agent.View()
		report := kubeletplugin.DeviceHealthReport{} // nothing is known before the first view
		if view != nil {
			report.Devices = healthOf(view, d.agent.Claims(), d.opts.NodeName, time.Now())
		}
		select {
		case reports <- report:
		case <-ctx.Done():
			return nil
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// healthOf lists what is offered, and what a claim holds although it is no longer offered: that is not well. It is pure.
func healthOf(v *agent.View, claims map[string]state.Claim, pool string, now time.Time) []kubeletplugin.DeviceHealth {
	list := []kubeletplugin.DeviceHealth{}
	add := func(name, fault string) {
		h := kubeletplugin.DeviceHealth{PoolName: pool, DeviceName: name, Health: kubeletplugin.HealthStatusHealthy, LastUpdated: now}
		if fault != "" {
			h.Health, h.Message = kubeletplugin.HealthStatusUnhealthy, strings.ToValidUTF8(fault, "?")
		}
		list = append(list, h)
	}
	for _, d := range offered(v) {
		add(d.Name, d.Fault)
	}
	for _, c := range claims {
		for _, held := range c.Devices {
			known := func(h kubeletplugin.DeviceHealth) bool { return h.DeviceName == held.Name }
			if !slices.ContainsFunc(list, known) {
				add(held.Name, "no longer offered")
			}
		}
	}
	slices.SortFunc(list, func(a, b kubeletplugin.DeviceHealth) int { return cmp.Compare(a.DeviceName, b.DeviceName) })
	return list
}
