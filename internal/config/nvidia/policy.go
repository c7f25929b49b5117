// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package nvidia

import (
	"fmt"

	"gpuslice/internal/config"
)

// Policy is what the device plugin's config says of every GPU that it is for: how it is offered, never how it is cut.
func (c DevicePlugin) Policy() config.Policy {
	return config.Policy{
		Managed: true, Layout: config.Layout{MIG: &config.MIG{AsFound: true}}, Serve: "device-plugin", Reset: "never",
		Shares: c.shares(), MIGStrategy: c.Flags.MIGStrategy,
	}
}

// nativePolicy translates sharedDevicesAllocationPolicy.
var nativePolicy = map[string]string{"distributed": "spread", "packed": "pack"}

func (c DevicePlugin) shares() []config.Share {
	r := c.Sharing.TimeSlicing
	if r == nil {
		return nil
	}
	shares := []config.Share{}
	for i, x := range r.Resources {
		shares = append(shares, config.Share{
			Of:       config.Devices{Resource: config.WithDomain(x.Name), First: x.Devices.First, Only: x.Devices.Only},
			Replicas: x.Replicas, Rename: r.rename(x), Policy: nativePolicy[c.Flags.Plugin.SharedDevicesAllocationPolicy],
			OnePerContainer: r.FailRequestsGreaterThanOne, Rule: fmt.Sprintf("sharing.timeSlicing.resources[%d]", i),
		})
	}
	return shares
}

func (r Replicated) rename(x ReplicatedResource) config.Rename {
	if x.Rename != "" {
		return config.Rename{Name: x.Rename}
	}
	return config.Rename{Suffix: r.RenameByDefault}
}
