// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Code generated from mig-profiles.json by generate.go; DO NOT EDIT.

package sim

import "gpuslice/pkg/devices"

var blackwellModels = []model{
	{
		key: "b200-180gb", name: "NVIDIA B200",
		architecture: 10, brand: 14, ccMajor: 10, ccMinor: 0, pciID: 0x290110DE,
		memoryMiB: 183359, sms: 148, memorySlices: 8, computeSlices: 7,
		modeNeedsReset: false, modeSurvivesReboot: false,
		rows: []row{
			{GIProfile: devices.GIProfile{ID: 19, Name: "1g.23gb", Slices: 1, MaxInstances: 7, SMs: 18, CopyEngines: 2, Decoders: 1, Encoders: 0, JPEGs: 1, OFAs: 0, MemoryMiB: 22528, Graphics: false}, enum: 0, placements: at(1, 0, 1, 2, 3, 4, 5, 6), cis: compute1},
			{GIProfile: devices.GIProfile{ID: 20, Name: "1g.23gb+me", Slices: 1, MaxInstances: 1, SMs: 18, CopyEngines: 2, Decoders: 1, Encoders: 0, JPEGs: 1, OFAs: 1, MemoryMiB: 22528, Graphics: false}, enum: 7, placements: at(1, 0, 1, 2, 3, 4, 5, 6), cis: compute1},
			{GIProfile: devices.GIProfile{ID: 15, Name: "1g.45gb", Slices: 1, MaxInstances: 4, SMs: 30, CopyEngines: 2, Decoders: 1, Encoders: 0, JPEGs: 1, OFAs: 0, MemoryMiB: 45312, Graphics: false}, enum: 9, placements: at(2, 0, 2, 4, 6), cis: compute1Rev1},
			{GIProfile: devices.GIProfile{ID: 14, Name: "2g.45gb", Slices: 2, MaxInstances: 3, SMs: 36, CopyEngines: 4, Decoders: 2, Encoders: 0, JPEGs: 2, OFAs: 0, MemoryMiB: 45312, Graphics: false}, enum: 1, placements: at(2, 0, 2, 4), cis: compute2},
			{GIProfile: devices.GIProfile{ID: 9, Name: "3g.90gb", Slices: 3, MaxInstances: 2, SMs: 70, CopyEngines: 6, Decoders: 3, Encoders: 0, JPEGs: 3, OFAs: 0, MemoryMiB: 91136, Graphics: false}, enum: 2, placements: at(4, 0, 4), cis: compute3},
			{GIProfile: devices.GIProfile{ID: 5, Name: "4g.90gb", Slices: 4, MaxInstances: 1, SMs: 72, CopyEngines: 8, Decoders: 4, Encoders: 0, JPEGs: 4, OFAs: 0, MemoryMiB: 91136, Graphics: false}, enum: 3, placements: at(4, 0), cis: compute4},
			{GIProfile: devices.GIProfile{ID: 0, Name: "7g.180gb", Slices: 7, MaxInstances: 1, SMs: 148, CopyEngines: 16, Decoders: 7, Encoders: 0, JPEGs: 7, OFAs: 1, MemoryMiB: 182784, Graphics: false}, enum: 4, placements: at(8, 0), cis: compute7},
		},
	},
	{
		key: "gb200-186gb", name: "NVIDIA GB200",
		architecture: 10, brand: 14, ccMajor: 10, ccMinor: 0, pciID: 0x294110DE,
		memoryMiB: 189471, sms: 152, memorySlices: 8, computeSlices: 7,
		modeNeedsReset: false, modeSurvivesReboot: false,
		rows: []row{
			{GIProfile: devices.GIProfile{ID: 19, Name: "1g.23gb", Slices: 1, MaxInstances: 7, SMs: 18, CopyEngines: 2, Decoders: 1, Encoders: 0, JPEGs: 1, OFAs: 0, MemoryMiB: 22528, Graphics: false}, enum: 0, placements: at(1, 0, 1, 2, 3, 4, 5, 6), cis: compute1},
			{GIProfile: devices.GIProfile{ID: 20, Name: "1g.23gb+me", Slices: 1, MaxInstances: 1, SMs: 18, CopyEngines: 2, Decoders: 1, Encoders: 0, JPEGs: 1, OFAs: 1, MemoryMiB: 22528, Graphics: false}, enum: 7, placements: at(1, 0, 1, 2, 3, 4, 5, 6), cis: compute1},
			{GIProfile: devices.GIProfile{ID: 15, Name: "1g.47gb", Slices: 1, MaxInstances: 4, SMs: 32, CopyEngines: 2, Decoders: 1, Encoders: 0, JPEGs: 1, OFAs: 0, MemoryMiB: 46592, Graphics: false}, enum: 9, placements: at(2, 0, 2, 4, 6), cis: compute1Rev1},
			{GIProfile: devices.GIProfile{ID: 14, Name: "2g.47gb", Slices: 2, MaxInstances: 3, SMs: 38, CopyEngines: 4, Decoders: 2, Encoders: 0, JPEGs: 2, OFAs: 0, MemoryMiB: 46592, Graphics: false}, enum: 1, placements: at(2, 0, 2, 4), cis: compute2},
			{GIProfile: devices.GIProfile{ID: 9, Name: "3g.93gb", Slices: 3, MaxInstances: 2, SMs: 74, CopyEngines: 6, Decoders: 3, Encoders: 0, JPEGs: 3, OFAs: 0, MemoryMiB: 94208, Graphics: false}, enum: 2, placements: at(4, 0, 4), cis: compute3},
			{GIProfile: devices.GIProfile{ID: 5, Name: "4g.93gb", Slices: 4, MaxInstances: 1, SMs: 76, CopyEngines: 8, Decoders: 4, Encoders: 0, JPEGs: 4, OFAs: 0, MemoryMiB: 94208, Graphics: false}, enum: 3, placements: at(4, 0), cis: compute4},
			{GIProfile: devices.GIProfile{ID: 0, Name: "7g.186gb", Slices: 7, MaxInstances: 1, SMs: 152, CopyEngines: 16, Decoders: 7, Encoders: 0, JPEGs: 7, OFAs: 1, MemoryMiB: 188928, Graphics: false}, enum: 4, placements: at(8, 0), cis: compute7},
		},
	},
	{
		key: "b300-269gb", name: "NVIDIA B300 SXM6 AC",
		architecture: 10, brand: 14, ccMajor: 10, ccMinor: 3, pciID: 0x318210DE,
		memoryMiB: 275040, sms: 148, memorySlices: 8, computeSlices: 7,
		modeNeedsReset: false, modeSurvivesReboot: false,
		rows: []row{
			{GIProfile: devices.GIProfile{ID: 19, Name: "1g.34gb", Slices: 1, MaxInstances: 7, SMs: 18, CopyEngines: 2, Decoders: 1, Encoders: 0, JPEGs: 1, OFAs: 0, MemoryMiB: 34380, Graphics: false}, enum: 0, placements: at(1, 0, 1, 2, 3, 4, 5, 6), cis: compute1},
			{GIProfile: devices.GIProfile{ID: 20, Name: "1g.34gb+me", Slices: 1, MaxInstances: 1, SMs: 18, CopyEngines: 2, Decoders: 1, Encoders: 0, JPEGs: 1, OFAs: 1, MemoryMiB: 34380, Graphics: false}, enum: 7, placements: at(1, 0, 1, 2, 3, 4, 5, 6), cis: compute1},
			{GIProfile: devices.GIProfile{ID: 15, Name: "1g.67gb", Slices: 1, MaxInstances: 4, SMs: 30, CopyEngines: 2, Decoders: 1, Encoders: 0, JPEGs: 1, OFAs: 0, MemoryMiB: 68760, Graphics: false}, enum: 9, placements: at(2, 0, 2, 4, 6), cis: compute1Rev1},
			{GIProfile: devices.GIProfile{ID: 14, Name: "2g.67gb", Slices: 2, MaxInstances: 3, SMs: 36, CopyEngines: 4, Decoders: 2, Encoders: 0, JPEGs: 2, OFAs: 0, MemoryMiB: 68760, Graphics: false}, enum: 1, placements: at(2, 0, 2, 4), cis: compute2},
			{GIProfile: devices.GIProfile{ID: 9, Name: "3g.135gb", Slices: 3, MaxInstances: 2, SMs: 70, CopyEngines: 6, Decoders: 3, Encoders: 0, JPEGs: 3, OFAs: 0, MemoryMiB: 137520, Graphics: false}, enum: 2, placements: at(4, 0, 4), cis: compute3},
			{GIProfile: devices.GIProfile{ID: 5, Name: "4g.135gb", Slices: 4, MaxInstances: 1, SMs: 72, CopyEngines: 8, Decoders: 4, Encoders: 0, JPEGs: 4, OFAs: 0, MemoryMiB: 137520, Graphics: false}, enum: 3, placements: at(4, 0), cis: compute4},
			{GIProfile: devices.GIProfile{ID: 0, Name: "7g.269gb", Slices: 7, MaxInstances: 1, SMs: 148, CopyEngines: 16, Decoders: 7, Encoders: 0, JPEGs: 7, OFAs: 1, MemoryMiB: 275040, Graphics: false}, enum: 4, placements: at(8, 0), cis: compute7},
		},
	},
	{
		key: "gb300-278gb", name: "NVIDIA GB300",
		architecture: 10, brand: 14, ccMajor: 10, ccMinor: 3, pciID: 0x31C210DE,
		memoryMiB: 284208, sms: 152, memorySlices: 8, computeSlices: 7,
		modeNeedsReset: false, modeSurvivesReboot: false,
		rows: []row{
			{GIProfile: devices.GIProfile{ID: 19, Name: "1g.35gb", Slices: 1, MaxInstances: 7, SMs: 18, CopyEngines: 2, Decoders: 1, Encoders: 0, JPEGs: 1, OFAs: 0, MemoryMiB: 35526, Graphics: false}, enum: 0, placements: at(1, 0, 1, 2, 3, 4, 5, 6), cis: compute1},
			{GIProfile: devices.GIProfile{ID: 20, Name: "1g.35gb+me", Slices: 1, MaxInstances: 1, SMs: 18, CopyEngines: 2, Decoders: 1, Encoders: 0, JPEGs: 1, OFAs: 1, MemoryMiB: 35526, Graphics: false}, enum: 7, placements: at(1, 0, 1, 2, 3, 4, 5, 6), cis: compute1},
			{GIProfile: devices.GIProfile{ID: 15, Name: "1g.70gb", Slices: 1, MaxInstances: 4, SMs: 32, CopyEngines: 2, Decoders: 1, Encoders: 0, JPEGs: 1, OFAs: 0, MemoryMiB: 71052, Graphics: false}, enum: 9, placements: at(2, 0, 2, 4, 6), cis: compute1Rev1},
			{GIProfile: devices.GIProfile{ID: 14, Name: "2g.70gb", Slices: 2, MaxInstances: 3, SMs: 38, CopyEngines: 4, Decoders: 2, Encoders: 0, JPEGs: 2, OFAs: 0, MemoryMiB: 71052, Graphics: false}, enum: 1, placements: at(2, 0, 2, 4), cis: compute2},
			{GIProfile: devices.GIProfile{ID: 9, Name: "3g.139gb", Slices: 3, MaxInstances: 2, SMs: 74, CopyEngines: 6, Decoders: 3, Encoders: 0, JPEGs: 3, OFAs: 0, MemoryMiB: 142104, Graphics: false}, enum: 2, placements: at(4, 0, 4), cis: compute3},
			{GIProfile: devices.GIProfile{ID: 5, Name: "4g.139gb", Slices: 4, MaxInstances: 1, SMs: 76, CopyEngines: 8, Decoders: 4, Encoders: 0, JPEGs: 4, OFAs: 0, MemoryMiB: 142104, Graphics: false}, enum: 3, placements: at(4, 0), cis: compute4},
			{GIProfile: devices.GIProfile{ID: 0, Name: "7g.278gb", Slices: 7, MaxInstances: 1, SMs: 152, CopyEngines: 16, Decoders: 7, Encoders: 0, JPEGs: 7, OFAs: 1, MemoryMiB: 284208, Graphics: false}, enum: 4, placements: at(8, 0), cis: compute7},
		},
	},
	{
		key: "rtx-pro-6000-blackwell-se-96gb", name: "NVIDIA RTX PRO 6000 Blackwell Server Edition",
		architecture: 10, brand: 13, ccMajor: 12, ccMinor: 0, pciID: 0x2BB510DE,
		memoryMiB: 97887, sms: 188, memorySlices: 12, computeSlices: 4,
		modeNeedsReset: false, modeSurvivesReboot: false,
		rows: []row{
			{GIProfile: devices.GIProfile{ID: 14, Name: "1g.24gb", Slices: 1, MaxInstances: 4, SMs: 46, CopyEngines: 1, Decoders: 1, Encoders: 1, JPEGs: 1, OFAs: 0, MemoryMiB: 24192, Graphics: false}, enum: 0, placements: at(3, 0, 3, 6, 9), cis: compute1},
			{GIProfile: devices.GIProfile{ID: 21, Name: "1g.24gb+me", Slices: 1, MaxInstances: 1, SMs: 46, CopyEngines: 1, Decoders: 1, Encoders: 1, JPEGs: 1, OFAs: 1, MemoryMiB: 24192, Graphics: false}, enum: 7, placements: at(3, 0, 3, 6, 9), cis: compute1},
			{GIProfile: devices.GIProfile{ID: 47, Name: "1g.24gb+gfx", Slices: 1, MaxInstances: 4, SMs: 46, CopyEngines: 1, Decoders: 1, Encoders: 1, JPEGs: 1, OFAs: 0, MemoryMiB: 24192, Graphics: true}, enum: 10, placements: at(3, 0, 3, 6, 9), cis: compute1},
			{GIProfile: devices.GIProfile{ID: 65, Name: "1g.24gb+me.all", Slices: 1, MaxInstances: 1, SMs: 46, CopyEngines: 1, Decoders: 4, Encoders: 4, JPEGs: 4, OFAs: 1, MemoryMiB: 24192, Graphics: false}, enum: 15, placements: at(3, 0, 3, 6, 9), cis: compute1},
			{GIProfile: devices.GIProfile{ID: 67, Name: "1g.24gb-me", Slices: 1, MaxInstances: 4, SMs: 46, CopyEngines: 1, Decoders: 0, Encoders: 0, JPEGs: 0, OFAs: 0, MemoryMiB: 24192, Graphics: false}, enum: 13, placements: at(3, 0, 3, 6, 9), cis: compute1},
			{GIProfile: devices.GIProfile{ID: 5, Name: "2g.48gb", Slices: 2, MaxInstances: 2, SMs: 94, CopyEngines: 2, Decoders: 2, Encoders: 2, JPEGs: 2, OFAs: 0, MemoryMiB: 48512, Graphics: false}, enum: 1, placements: at(6, 0, 6), cis: compute2},
			{GIProfile: devices.GIProfile{ID: 35, Name: "2g.48gb+gfx", Slices: 2, MaxInstances: 2, SMs: 94, CopyEngines: 2, Decoders: 2, Encoders: 2, JPEGs: 2, OFAs: 0, MemoryMiB: 48512, Graphics: true}, enum: 11, placements: at(6, 0, 6), cis: compute2},
			{GIProfile: devices.GIProfile{ID: 64, Name: "2g.48gb+me.all", Slices: 2, MaxInstances: 1, SMs: 94, CopyEngines: 2, Decoders: 4, Encoders: 4, JPEGs: 4, OFAs: 1, MemoryMiB: 48512, Graphics: false}, enum: 16, placements: at(6, 0, 6), cis: compute2},
			{GIProfile: devices.GIProfile{ID: 66, Name: "2g.48gb-me", Slices: 2, MaxInstances: 2, SMs: 94, CopyEngines: 2, Decoders: 0, Encoders: 0, JPEGs: 0, OFAs: 0, MemoryMiB: 48512, Graphics: false}, enum: 14, placements: at(6, 0, 6), cis: compute2},
			{GIProfile: devices.GIProfile{ID: 0, Name: "4g.96gb", Slices: 4, MaxInstances: 1, SMs: 188, CopyEngines: 4, Decoders: 4, Encoders: 4, JPEGs: 4, OFAs: 1, MemoryMiB: 97408, Graphics: false}, enum: 3, placements: at(12, 0), cis: compute4},
			{GIProfile: devices.GIProfile{ID: 32, Name: "4g.96gb+gfx", Slices: 4, MaxInstances: 1, SMs: 188, CopyEngines: 4, Decoders: 4, Encoders: 4, JPEGs: 4, OFAs: 1, MemoryMiB: 97408, Graphics: true}, enum: 12, placements: at(12, 0), cis: compute4},
		},
	},
}
