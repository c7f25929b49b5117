// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

// otherModels are GPUs that are no cards in a server: on a system on a chip, with the memory of the host, or a part of a GPU that
// the host of a virtual machine gives to it. Their numbers are from public listings of nvidia-smi and from nvml.h.
var otherModels = []model{
	{
		key: "gb10", name: "NVIDIA GB10",
		architecture: 10, brand: 14, ccMajor: 12, ccMinor: 1, pciID: 0x2E1210DE, sms: 48,
		noMemory: true,
	},
	{
		key: "grid-a100d-40c", name: "GRID A100D-40C",
		architecture: 7, brand: 9, ccMajor: 8, ccMinor: 0, pciID: 0x20B510DE, memoryMiB: 40960, sms: 108,
		virtual: true,
	},
	{
		key: "a40-48q", name: "NVIDIA A40-48Q",
		architecture: 7, brand: 10, ccMajor: 8, ccMinor: 6, pciID: 0x223510DE, memoryMiB: 49152, sms: 84,
		virtual: true,
	},
}
