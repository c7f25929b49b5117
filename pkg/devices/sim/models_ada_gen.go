// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Code generated from mig-profiles.json by generate.go; DO NOT EDIT.

package sim

var adaModels = []model{
	{
		key: "l40s", name: "NVIDIA L40S",
		architecture: 8, brand: 14, ccMajor: 8, ccMinor: 9, pciID: 0x26B910DE,
		memoryMiB: 46068, sms: 142, memorySlices: 0, computeSlices: 0,
		modeNeedsReset: false, modeSurvivesReboot: false,
	},
	{
		key: "l4", name: "NVIDIA L4",
		architecture: 8, brand: 14, ccMajor: 8, ccMinor: 9, pciID: 0x27B810DE,
		memoryMiB: 23034, sms: 58, memorySlices: 0, computeSlices: 0,
		modeNeedsReset: false, modeSurvivesReboot: false,
	},
}
