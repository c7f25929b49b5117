// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Code generated from mig-profiles.json by generate.go; DO NOT EDIT.

package sim

import "gpuslice/pkg/devices"

var hopperModels = []model{
	{
		key: "h100-sxm5-80gb", name: "NVIDIA H100 80GB HBM3",
		architecture: 9, brand: 14, ccMajor: 9, ccMinor: 0, pciID: 0x233010DE,
		memoryMiB: 81559, sms: 132, memorySlices: 8, computeSlices: 7,
		modeNeedsReset: false, modeSurvivesReboot: false,
		rows: []row{
			{GIProfile: devices.GIProfile{ID: 19, Name: "1g.10gb", Slices: 1, MaxInstances: 7, SMs: 16, CopyEngines: 1, Decoders: 1, Encoders: 0, JPEGs: 1, OFAs: 0, MemoryMiB: 9984, Graphics: false}, enum: 0, placements: at(1, 0, 1, 2, 3, 4, 5, 6), cis: compute1},
			{GIProfile: devices.GIProfile{ID: 20, Name: "1g.10gb+me", Slices: 1, MaxInstances: 1, SMs: 16, CopyEngines: 1, Decoders: 1, Encoders: 0, JPEGs: 1, OFAs: 1, MemoryMiB: 9984, Graphics: false}, enum: 7, placements: at(1, 0, 1, 2, 3, 4, 5, 6), cis: compute1},
			{GIProfile: devices.GIProfile{ID: 15, Name: "1g.20gb", Slices: 1, MaxInstances: 4, SMs: 26, CopyEngines: 1, Decoders: 1, Encoders: 0, JPEGs: 1, OFAs: 0, MemoryMiB: 20096, Graphics: false}, enum: 9, placements: at(2, 0, 2, 4, 6), cis: compute1Rev1},
			{GIProfile: devices.GIProfile{ID: 14, Name: "2g.20gb", Slices: 2, MaxInstances: 3, SMs: 32, CopyEngines: 2, Decoders: 2, Encoders: 0, JPEGs: 2, OFAs: 0, MemoryMiB: 20096, Graphics: false}, enum: 1, placements: at(2, 0, 2, 4), cis: compute2},
			{GIProfile: devices.GIProfile{ID: 9, Name: "3g.40gb", Slices: 3, MaxInstances: 2, SMs: 60, CopyEngines: 3, Decoders: 3, Encoders: 0, JPEGs: 3, OFAs: 0, MemoryMiB: 40448, Graphics: false}, enum: 2, placements: at(4, 0, 4), cis: compute3},
			{GIProfile: devices.GIProfile{ID: 5, Name: "4g.40gb", Slices: 4, MaxInstances: 1, SMs: 64, CopyEngines: 4, Decoders: 4, Encoders: 0, JPEGs: 4, OFAs: 0, MemoryMiB: 40448, Graphics: false}, enum: 3, placements: at(4, 0), cis: compute4},
			{GIProfile: devices.GIProfile{ID: 0, Name: "7g.80gb", Slices: 7, MaxInstances: 1, SMs: 132, CopyEngines: 8, Decoders: 7, Encoders: 0, JPEGs: 7, OFAs: 1, MemoryMiB: 81152, Graphics: false}, enum: 4, placements: at(8, 0), cis: compute7},
		},
	},
	{
		key: "h100-pcie-80gb", name: "NVIDIA H100 PCIe",
		architecture: 9, brand: 14, ccMajor: 9, ccMinor: 0, pciID: 0x233110DE,
		memoryMiB: 81559, sms: 114, memorySlices: 8, computeSlices: 7,
		modeNeedsReset: false, modeSurvivesReboot: false,
		rows: []row{
			{GIProfile: devices.GIProfile{ID: 19, Name: "1g.10gb", Slices: 1, MaxInstances: 7, SMs: 14, CopyEngines: 1, Decoders: 1, Encoders: 0, JPEGs: 1, OFAs: 0, MemoryMiB: 9984, Graphics: false}, enum: 0, placements: at(1, 0, 1, 2, 3, 4, 5, 6), cis: compute1},
			{GIProfile: devices.GIProfile{ID: 20, Name: "1g.10gb+me", Slices: 1, MaxInstances: 1, SMs: 14, CopyEngines: 1, Decoders: 1, Encoders: 0, JPEGs: 1, OFAs: 1, MemoryMiB: 9984, Graphics: false}, enum: 7, placements: at(1, 0, 1, 2, 3, 4, 5, 6), cis: compute1},
			{GIProfile: devices.GIProfile{ID: 15, Name: "1g.20gb", Slices: 1, MaxInstances: 4, SMs: 14, CopyEngines: 1, Decoders: 1, Encoders: 0, JPEGs: 1, OFAs: 0, MemoryMiB: 20096, Graphics: false}, enum: 9, placements: at(2, 0, 2, 4, 6), cis: compute1Rev1},
			{GIProfile: devices.GIProfile{ID: 14, Name: "2g.20gb", Slices: 2, MaxInstances: 3, SMs: 30, CopyEngines: 2, Decoders: 2, Encoders: 0, JPEGs: 2, OFAs: 0, MemoryMiB: 20096, Graphics: false}, enum: 1, placements: at(2, 0, 2, 4), cis: compute2},
			{GIProfile: devices.GIProfile{ID: 9, Name: "3g.40gb", Slices: 3, MaxInstances: 2, SMs: 46, CopyEngines: 3, Decoders: 3, Encoders: 0, JPEGs: 3, OFAs: 0, MemoryMiB: 40448, Graphics: false}, enum: 2, placements: at(4, 0, 4), cis: compute3},
			{GIProfile: devices.GIProfile{ID: 5, Name: "4g.40gb", Slices: 4, MaxInstances: 1, SMs: 62, CopyEngines: 4, Decoders: 4, Encoders: 0, JPEGs: 4, OFAs: 0, MemoryMiB: 40448, Graphics: false}, enum: 3, placements: at(4, 0), cis: compute4},
			{GIProfile: devices.GIProfile{ID: 0, Name: "7g.80gb", Slices: 7, MaxInstances: 1, SMs: 114, CopyEngines: 8, Decoders: 7, Encoders: 0, JPEGs: 7, OFAs: 1, MemoryMiB: 81152, Graphics: false}, enum: 4, placements: at(8, 0), cis: compute7},
		},
	},
	{
		key: "h100-nvl-94gb", name: "NVIDIA H100 NVL",
		architecture: 9, brand: 14, ccMajor: 9, ccMinor: 0, pciID: 0x232110DE,
		memoryMiB: 95830, sms: 132, memorySlices: 8, computeSlices: 7,
		modeNeedsReset: false, modeSurvivesReboot: false,
		rows: []row{
			{GIProfile: devices.GIProfile{ID: 19, Name: "1g.12gb", Slices: 1, MaxInstances: 7, SMs: 16, CopyEngines: 1, Decoders: 1, Encoders: 0, JPEGs: 1, OFAs: 0, MemoryMiB: 11008, Graphics: false}, enum: 0, placements: at(1, 0, 1, 2, 3, 4, 5, 6), cis: compute1},
			{GIProfile: devices.GIProfile{ID: 20, Name: "1g.12gb+me", Slices: 1, MaxInstances: 1, SMs: 16, CopyEngines: 1, Decoders: 1, Encoders: 0, JPEGs: 1, OFAs: 1, MemoryMiB: 11008, Graphics: false}, enum: 7, placements: at(1, 0, 1, 2, 3, 4, 5, 6), cis: compute1},
			{GIProfile: devices.GIProfile{ID: 15, Name: "1g.24gb", Slices: 1, MaxInstances: 4, SMs: 26, CopyEngines: 1, Decoders: 1, Encoders: 0, JPEGs: 1, OFAs: 0, MemoryMiB: 22144, Graphics: false}, enum: 9, placements: at(2, 0, 2, 4, 6), cis: compute1Rev1},
			{GIProfile: devices.GIProfile{ID: 14, Name: "2g.24gb", Slices: 2, MaxInstances: 3, SMs: 32, CopyEngines: 2, Decoders: 2, Encoders: 0, JPEGs: 2, OFAs: 0, MemoryMiB: 22144, Graphics: false}, enum: 1, placements: at(2, 0, 2, 4), cis: compute2},
			{GIProfile: devices.GIProfile{ID: 9, Name: "3g.47gb", Slices: 3, MaxInstances: 2, SMs: 60, CopyEngines: 3, Decoders: 3, Encoders: 0, JPEGs: 3, OFAs: 0, MemoryMiB: 47488, Graphics: false}, enum: 2, placements: at(4, 0, 4), cis: compute3},
			{GIProfile: devices.GIProfile{ID: 5, Name: "4g.47gb", Slices: 4, MaxInstances: 1, SMs: 64, CopyEngines: 4, Decoders: 4, Encoders: 0, JPEGs: 4, OFAs: 0, MemoryMiB: 47488, Graphics: false}, enum: 3, placements: at(4, 0), cis: compute4},
			{GIProfile: devices.GIProfile{ID: 0, Name: "7g.94gb", Slices: 7, MaxInstances: 1, SMs: 132, CopyEngines: 8, Decoders: 7, Encoders: 0, JPEGs: 7, OFAs: 1, MemoryMiB: 95360, Graphics: false}, enum: 4, placements: at(8, 0), cis: compute7},
		},
	},
	{
		key: "gh200-96gb", name: "NVIDIA GH200 480GB",
		architecture: 9, brand: 14, ccMajor: 9, ccMinor: 0, pciID: 0x234210DE,
		memoryMiB: 97871, sms: 132, memorySlices: 8, computeSlices: 7,
		modeNeedsReset: false, modeSurvivesReboot: false,
		rows: []row{
			{GIProfile: devices.GIProfile{ID: 19, Name: "1g.12gb", Slices: 1, MaxInstances: 7, SMs: 16, CopyEngines: 1, Decoders: 1, Encoders: 0, JPEGs: 1, OFAs: 0, MemoryMiB: 11264, Graphics: false}, enum: 0, placements: at(1, 0, 1, 2, 3, 4, 5, 6), cis: compute1},
			{GIProfile: devices.GIProfile{ID: 20, Name: "1g.12gb+me", Slices: 1, MaxInstances: 1, SMs: 16, CopyEngines: 1, Decoders: 1, Encoders: 0, JPEGs: 1, OFAs: 1, MemoryMiB: 11264, Graphics: false}, enum: 7, placements: at(1, 0, 1, 2, 3, 4, 5, 6), cis: compute1},
			{GIProfile: devices.GIProfile{ID: 15, Name: "1g.24gb", Slices: 1, MaxInstances: 4, SMs: 26, CopyEngines: 1, Decoders: 1, Encoders: 0, JPEGs: 1, OFAs: 0, MemoryMiB: 23552, Graphics: false}, enum: 9, placements: at(2, 0, 2, 4, 6), cis: compute1Rev1},
			{GIProfile: devices.GIProfile{ID: 14, Name: "2g.24gb", Slices: 2, MaxInstances: 3, SMs: 32, CopyEngines: 2, Decoders: 2, Encoders: 0, JPEGs: 2, OFAs: 0, MemoryMiB: 23552, Graphics: false}, enum: 1, placements: at(2, 0, 2, 4), cis: compute2},
			{GIProfile: devices.GIProfile{ID: 9, Name: "3g.48gb", Slices: 3, MaxInstances: 2, SMs: 60, CopyEngines: 3, Decoders: 3, Encoders: 0, JPEGs: 3, OFAs: 0, MemoryMiB: 47616, Graphics: false}, enum: 2, placements: at(4, 0, 4), cis: compute3},
			{GIProfile: devices.GIProfile{ID: 5, Name: "4g.48gb", Slices: 4, MaxInstances: 1, SMs: 64, CopyEngines: 4, Decoders: 4, Encoders: 0, JPEGs: 4, OFAs: 0, MemoryMiB: 47616, Graphics: false}, enum: 3, placements: at(4, 0), cis: compute4},
			{GIProfile: devices.GIProfile{ID: 0, Name: "7g.96gb", Slices: 7, MaxInstances: 1, SMs: 132, CopyEngines: 8, Decoders: 7, Encoders: 0, JPEGs: 7, OFAs: 1, MemoryMiB: 95232, Graphics: false}, enum: 4, placements: at(8, 0), cis: compute7},
		},
	},
	{
		key: "h200-sxm5-141gb", name: "NVIDIA H200",
		architecture: 9, brand: 14, ccMajor: 9, ccMinor: 0, pciID: 0x233510DE,
		memoryMiB: 143771, sms: 132, memorySlices: 8, computeSlices: 7,
		modeNeedsReset: false, modeSurvivesReboot: false,
		rows: []row{
			{GIProfile: devices.GIProfile{ID: 19, Name: "1g.18gb", Slices: 1, MaxInstances: 7, SMs: 16, CopyEngines: 1, Decoders: 1, Encoders: 0, JPEGs: 1, OFAs: 0, MemoryMiB: 16384, Graphics: false}, enum: 0, placements: at(1, 0, 1, 2, 3, 4, 5, 6), cis: compute1},
			{GIProfile: devices.GIProfile{ID: 20, Name: "1g.18gb+me", Slices: 1, MaxInstances: 1, SMs: 16, CopyEngines: 1, Decoders: 1, Encoders: 0, JPEGs: 1, OFAs: 1, MemoryMiB: 16384, Graphics: false}, enum: 7, placements: at(1, 0, 1, 2, 3, 4, 5, 6), cis: compute1},
			{GIProfile: devices.GIProfile{ID: 15, Name: "1g.35gb", Slices: 1, MaxInstances: 4, SMs: 26, CopyEngines: 1, Decoders: 1, Encoders: 0, JPEGs: 1, OFAs: 0, MemoryMiB: 33024, Graphics: false}, enum: 9, placements: at(2, 0, 2, 4, 6), cis: compute1Rev1},
			{GIProfile: devices.GIProfile{ID: 14, Name: "2g.35gb", Slices: 2, MaxInstances: 3, SMs: 32, CopyEngines: 2, Decoders: 2, Encoders: 0, JPEGs: 2, OFAs: 0, MemoryMiB: 33024, Graphics: false}, enum: 1, placements: at(2, 0, 2, 4), cis: compute2},
			{GIProfile: devices.GIProfile{ID: 9, Name: "3g.71gb", Slices: 3, MaxInstances: 2, SMs: 60, CopyEngines: 3, Decoders: 3, Encoders: 0, JPEGs: 3, OFAs: 0, MemoryMiB: 71168, Graphics: false}, enum: 2, placements: at(4, 0, 4), cis: compute3},
			{GIProfile: devices.GIProfile{ID: 5, Name: "4g.71gb", Slices: 4, MaxInstances: 1, SMs: 64, CopyEngines: 4, Decoders: 4, Encoders: 0, JPEGs: 4, OFAs: 0, MemoryMiB: 71168, Graphics: false}, enum: 3, placements: at(4, 0), cis: compute4},
			{GIProfile: devices.GIProfile{ID: 0, Name: "7g.141gb", Slices: 7, MaxInstances: 1, SMs: 132, CopyEngines: 8, Decoders: 7, Encoders: 0, JPEGs: 7, OFAs: 1, MemoryMiB: 143360, Graphics: false}, enum: 4, placements: at(8, 0), cis: compute7},
		},
	},
	{
		key: "gh200-144gb", name: "NVIDIA GH200 144G HBM3e",
		architecture: 9, brand: 14, ccMajor: 9, ccMinor: 0, pciID: 0x234810DE,
		memoryMiB: 147456, sms: 132, memorySlices: 8, computeSlices: 7,
		modeNeedsReset: false, modeSurvivesReboot: false,
		rows: []row{
			{GIProfile: devices.GIProfile{ID: 19, Name: "1g.18gb", Slices: 1, MaxInstances: 7, SMs: 16, CopyEngines: 1, Decoders: 1, Encoders: 0, JPEGs: 1, OFAs: 0, MemoryMiB: 17920, Graphics: false}, enum: 0, placements: at(1, 0, 1, 2, 3, 4, 5, 6), cis: compute1},
			{GIProfile: devices.GIProfile{ID: 20, Name: "1g.18gb+me", Slices: 1, MaxInstances: 1, SMs: 16, CopyEngines: 1, Decoders: 1, Encoders: 0, JPEGs: 1, OFAs: 1, MemoryMiB: 17920, Graphics: false}, enum: 7, placements: at(1, 0, 1, 2, 3, 4, 5, 6), cis: compute1},
			{GIProfile: devices.GIProfile{ID: 15, Name: "1g.36gb", Slices: 1, MaxInstances: 4, SMs: 26, CopyEngines: 1, Decoders: 1, Encoders: 0, JPEGs: 1, OFAs: 0, MemoryMiB: 36096, Graphics: false}, enum: 9, placements: at(2, 0, 2, 4, 6), cis: compute1Rev1},
			{GIProfile: devices.GIProfile{ID: 14, Name: "2g.36gb", Slices: 2, MaxInstances: 3, SMs: 32, CopyEngines: 2, Decoders: 2, Encoders: 0, JPEGs: 2, OFAs: 0, MemoryMiB: 36096, Graphics: false}, enum: 1, placements: at(2, 0, 2, 4), cis: compute2},
			{GIProfile: devices.GIProfile{ID: 9, Name: "3g.72gb", Slices: 3, MaxInstances: 2, SMs: 60, CopyEngines: 3, Decoders: 3, Encoders: 0, JPEGs: 3, OFAs: 0, MemoryMiB: 73728, Graphics: false}, enum: 2, placements: at(4, 0, 4), cis: compute3},
			{GIProfile: devices.GIProfile{ID: 5, Name: "4g.72gb", Slices: 4, MaxInstances: 1, SMs: 64, CopyEngines: 4, Decoders: 4, Encoders: 0, JPEGs: 4, OFAs: 0, MemoryMiB: 73728, Graphics: false}, enum: 3, placements: at(4, 0), cis: compute4},
			{GIProfile: devices.GIProfile{ID: 0, Name: "7g.144gb", Slices: 7, MaxInstances: 1, SMs: 132, CopyEngines: 8, Decoders: 7, Encoders: 0, JPEGs: 7, OFAs: 1, MemoryMiB: 147456, Graphics: false}, enum: 4, placements: at(8, 0), cis: compute7},
		},
	},
}
