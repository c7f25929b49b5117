// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package wire

// What nvidia-smi reaches through the kernel module and no library call does. GPUs have ids: index, UUID or bus id.
const (
	// CallReset takes an id.
	CallReset = "nvidia-smi reset"
	// CallSetPersistence takes an id, and 1 for on.
	CallSetPersistence = "nvidia-smi persistence"
	// CallGetTimeSlice takes an id and answers a number from 0 (default) to 3 (long).
	CallGetTimeSlice = "nvidia-smi time slice"
	// CallSetTimeSlice takes an id and the number.
	CallSetTimeSlice = "nvidia-smi set time slice"
)
