// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Code generated from mig-profiles.json by generate.go; DO NOT EDIT.

package sim

import "gpuslice/pkg/devices"

var ampereModels = []model{
	{
		key: "a30-24gb", name: "NVIDIA A30",
		architecture: 7, brand: 14, ccMajor: 8, ccMinor: 0, pciID: 0x20B710DE,
		memoryMiB: 24576, sms: 56, memorySlices: 4, computeSlices: 4,
		modeNeedsReset: true, modeSurvivesReboot: true,
		rows: []row{
			{GIProfile: devices.GIProfile{ID: 14, Name: "1g.6gb", Slices: 1, MaxInstances: 4, SMs: 14, CopyEngines: 1, Decoders: 1, Encoders: 0, JPEGs: 0, OFAs: 0, MemoryMiB: 5952, Graphics: false}, enum: 0, placements: at(1, 0, 1, 2, 3), cis: compute1},
			{GIProfile: devices.GIProfile{ID: 21, Name: "1g.6gb+me", Slices: 1, MaxInstances: 1, SMs: 14, CopyEngines: 1, Decoders: 1, Encoders: 0, JPEGs: 1, OFAs: 1, MemoryMiB: 5952, Graphics: false}, enum: 7, placements: at(1, 0, 1, 2, 3), cis: compute1},
			{GIProfile: devices.GIProfile{ID: 5, Name: "2g.12gb", Slices: 2, MaxInstances: 2, SMs: 28, CopyEngines: 2, Decoders: 2, Encoders: 0, JPEGs: 0, OFAs: 0, MemoryMiB: 11968, Graphics: false}, enum: 1, placements: at(2, 0, 2), cis: compute2},
			{GIProfile: devices.GIProfile{ID: 6, Name: "2g.12gb+me", Slices: 2, MaxInstances: 1, SMs: 28, CopyEngines: 2, Decoders: 2, Encoders: 0, JPEGs: 1, OFAs: 1, MemoryMiB: 11968, Graphics: false}, enum: 8, placements: at(2, 0, 2), cis: compute2},
			{GIProfile: devices.GIProfile{ID: 0, Name: "4g.24gb", Slices: 4, MaxInstances: 1, SMs: 56, CopyEngines: 4, Decoders: 4, Encoders: 0, JPEGs: 1, OFAs: 1, MemoryMiB: 24000, Graphics: false}, enum: 3, placements: at(4, 0), cis: compute4},
		},
	},
	{
		key: "a100-sxm4-40gb", name: "NVIDIA A100-SXM4-40GB",
		architecture: 7, brand: 14, ccMajor: 8, ccMinor: 0, pciID: 0x20B010DE,
		memoryMiB: 40960, sms: 108, memorySlices: 8, computeSlices: 7,
		modeNeedsReset: true, modeSurvivesReboot: true,
		rows: []row{
			{GIProfile: devices.GIProfile{ID: 19, Name: "1g.5gb", Slices: 1, MaxInstances: 7, SMs: 14, CopyEngines: 1, Decoders: 0, Encoders: 0, JPEGs: 0, OFAs: 0, MemoryMiB: 4864, Graphics: false}, enum: 0, placements: at(1, 0, 1, 2, 3, 4, 5, 6), cis: compute1},
			{GIProfile: devices.GIProfile{ID: 20, Name: "1g.5gb+me", Slices: 1, MaxInstances: 1, SMs: 14, CopyEngines: 1, Decoders: 1, Encoders: 0, JPEGs: 1, OFAs: 1, MemoryMiB: 4864, Graphics: false}, enum: 7, placements: at(1, 0, 1, 2, 3, 4, 5, 6), cis: compute1},
			{GIProfile: devices.GIProfile{ID: 15, Name: "1g.10gb", Slices: 1, MaxInstances: 4, SMs: 14, CopyEngines: 1, Decoders: 1, Encoders: 0, JPEGs: 0, OFAs: 0, MemoryMiB: 9856, Graphics: false}, enum: 9, placements: at(2, 0, 2, 4, 6), cis: compute1Rev1},
			{GIProfile: devices.GIProfile{ID: 14, Name: "2g.10gb", Slices: 2, MaxInstances: 3, SMs: 28, CopyEngines: 2, Decoders: 1, Encoders: 0, JPEGs: 0, OFAs: 0, MemoryMiB: 9856, Graphics: false}, enum: 1, placements: at(2, 0, 2, 4), cis: compute2},
			{GIProfile: devices.GIProfile{ID: 9, Name: "3g.20gb", Slices: 3, MaxInstances: 2, SMs: 42, CopyEngines: 3, Decoders: 2, Encoders: 0, JPEGs: 0, OFAs: 0, MemoryMiB: 19968, Graphics: false}, enum: 2, placements: at(4, 0, 4), cis: compute3},
			{GIProfile: devices.GIProfile{ID: 5, Name: "4g.20gb", Slices: 4, MaxInstances: 1, SMs: 56, CopyEngines: 4, Decoders: 2, Encoders: 0, JPEGs: 0, OFAs: 0, MemoryMiB: 19968, Graphics: false}, enum: 3, placements: at(4, 0), cis: compute4},
			{GIProfile: devices.GIProfile{ID: 0, Name: "7g.40gb", Slices: 7, MaxInstances: 1, SMs: 98, CopyEngines: 7, Decoders: 5, Encoders: 0, JPEGs: 1, OFAs: 1, MemoryMiB: 40192, Graphics: false}, enum: 4, placements: at(8, 0), cis: compute7},
		},
	},
	{
		key: "a100-sxm4-80gb", name: "NVIDIA A100-SXM4-80GB",
		architecture: 7, brand: 14, ccMajor: 8, ccMinor: 0, pciID: 0x20B210DE,
		memoryMiB: 81920, sms: 108, memorySlices: 8, computeSlices: 7,
		modeNeedsReset: true, modeSurvivesReboot: true,
		rows: []row{
			{GIProfile: devices.GIProfile{ID: 19, Name: "1g.10gb", Slices: 1, MaxInstances: 7, SMs: 14, CopyEngines: 1, Decoders: 0, Encoders: 0, JPEGs: 0, OFAs: 0, MemoryMiB: 9728, Graphics: false}, enum: 0, placements: at(1, 0, 1, 2, 3, 4, 5, 6), cis: compute1},
			{GIProfile: devices.GIProfile{ID: 20, Name: "1g.10gb+me", Slices: 1, MaxInstances: 1, SMs: 14, CopyEngines: 1, Decoders: 1, Encoders: 0, JPEGs: 1, OFAs: 1, MemoryMiB: 9728, Graphics: false}, enum: 7, placements: at(1, 0, 1, 2, 3, 4, 5, 6), cis: compute1},
			{GIProfile: devices.GIProfile{ID: 15, Name: "1g.20gb", Slices: 1, MaxInstances: 4, SMs: 14, CopyEngines: 1, Decoders: 1, Encoders: 0, JPEGs: 0, OFAs: 0, MemoryMiB: 19968, Graphics: false}, enum: 9, placements: at(2, 0, 2, 4, 6), cis: compute1Rev1},
			{GIProfile: devices.GIProfile{ID: 14, Name: "2g.20gb", Slices: 2, MaxInstances: 3, SMs: 28, CopyEngines: 2, Decoders: 1, Encoders: 0, JPEGs: 0, OFAs: 0, MemoryMiB: 19968, Graphics: false}, enum: 1, placements: at(2, 0, 2, 4), cis: compute2},
			{GIProfile: devices.GIProfile{ID: 9, Name: "3g.40gb", Slices: 3, MaxInstances: 2, SMs: 42, CopyEngines: 3, Decoders: 2, Encoders: 0, JPEGs: 0, OFAs: 0, MemoryMiB: 40192, Graphics: false}, enum: 2, placements: at(4, 0, 4), cis: compute3},
			{GIProfile: devices.GIProfile{ID: 5, Name: "4g.40gb", Slices: 4, MaxInstances: 1, SMs: 56, CopyEngines: 4, Decoders: 2, Encoders: 0, JPEGs: 0, OFAs: 0, MemoryMiB: 40192, Graphics: false}, enum: 3, placements: at(4, 0), cis: compute4},
			{GIProfile: devices.GIProfile{ID: 0, Name: "7g.80gb", Slices: 7, MaxInstances: 1, SMs: 98, CopyEngines: 7, Decoders: 5, Encoders: 0, JPEGs: 1, OFAs: 1, MemoryMiB: 80896, Graphics: false}, enum: 4, placements: at(8, 0), cis: compute7},
		},
	},
}
