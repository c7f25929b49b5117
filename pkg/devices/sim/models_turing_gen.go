// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Code generated from mig-profiles.json by generate.go; DO NOT EDIT.

package sim

var turingModels = []model{
	{
		key: "t4", name: "Tesla T4",
		architecture: 6, brand: 2, ccMajor: 7, ccMinor: 5, pciID: 0x1EB810DE,
		memoryMiB: 15360, sms: 40, memorySlices: 0, computeSlices: 0,
		modeNeedsReset: false, modeSurvivesReboot: false,
	},
}
