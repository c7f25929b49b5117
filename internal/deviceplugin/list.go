// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package deviceplugin

import (
	"cmp"

	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"gpuslice/internal/agent"
)

// listOf turns entries of the view into the protocol's. Topology is absent when the NUMA node is unknown.
func listOf(entries []agent.Listed, broken map[string]string) []*pluginapi.Device {
	list := make([]*pluginapi.Device, 0, len(entries))
	for _, e := range entries {
		d := &pluginapi.Device{ID: e.ID, Health: pluginapi.Healthy}
		fault := e.Fault
		if e.Device != nil {
			fault = cmp.Or(fault, broken[e.Device.UUID])
		}
		if fault != "" {
			d.Health = pluginapi.Unhealthy
		}
		if e.NUMA >= 0 {
			d.Topology = &pluginapi.TopologyInfo{Nodes: []*pluginapi.NUMANode{{ID: int64(e.NUMA)}}}
		}
		list = append(list, d)
	}
	return list
}

func equal(a, b []*pluginapi.Device) bool {
	return proto.Equal(&pluginapi.ListAndWatchResponse{Devices: a}, &pluginapi.ListAndWatchResponse{Devices: b})
}
