// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Code generated from mig-profiles.json by generate.go; DO NOT EDIT.

package sim

import "gpuslice/pkg/devices"

// Compute-instance profiles by the shape of the GPU instance.
var (
	compute1 = []ciRow{
		{CIProfile: devices.CIProfile{ID: 0, Slices: 1, MaxInstances: 1}, enum: 0, spans: at(1, 0)},
	}
	compute1Rev1 = []ciRow{
		{CIProfile: devices.CIProfile{ID: 7, Slices: 1, MaxInstances: 1}, enum: 7, spans: at(1, 0)},
	}
	compute2 = []ciRow{
		{CIProfile: devices.CIProfile{ID: 0, Slices: 1, MaxInstances: 2}, enum: 0, spans: at(1, 0, 1)},
		{CIProfile: devices.CIProfile{ID: 1, Slices: 2, MaxInstances: 1}, enum: 1, spans: at(2, 0)},
	}
	compute3 = []ciRow{
		{CIProfile: devices.CIProfile{ID: 0, Slices: 1, MaxInstances: 3}, enum: 0, spans: at(1, 0, 1, 2)},
		{CIProfile: devices.CIProfile{ID: 1, Slices: 2, MaxInstances: 1}, enum: 1, spans: at(2, 0)},
		{CIProfile: devices.CIProfile{ID: 2, Slices: 3, MaxInstances: 1}, enum: 2, spans: at(3, 0)},
	}
	compute4 = []ciRow{
		{CIProfile: devices.CIProfile{ID: 0, Slices: 1, MaxInstances: 4}, enum: 0, spans: at(1, 0, 1, 2, 3)},
		{CIProfile: devices.CIProfile{ID: 1, Slices: 2, MaxInstances: 2}, enum: 1, spans: at(2, 0, 2)},
		{CIProfile: devices.CIProfile{ID: 3, Slices: 4, MaxInstances: 1}, enum: 3, spans: at(4, 0)},
	}
	compute7 = []ciRow{
		{CIProfile: devices.CIProfile{ID: 0, Slices: 1, MaxInstances: 7}, enum: 0, spans: at(1, 0, 1, 2, 3, 4, 5, 6)},
		{CIProfile: devices.CIProfile{ID: 1, Slices: 2, MaxInstances: 3}, enum: 1, spans: at(2, 0, 2, 4)},
		{CIProfile: devices.CIProfile{ID: 2, Slices: 3, MaxInstances: 2}, enum: 2, spans: at(3, 0, 4)},
		{CIProfile: devices.CIProfile{ID: 3, Slices: 4, MaxInstances: 1}, enum: 3, spans: at(4, 0)},
		{CIProfile: devices.CIProfile{ID: 4, Slices: 7, MaxInstances: 1}, enum: 4, spans: at(7, 0)},
	}
)
