// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package devices holds the GPUs of a node as values and the one seam to the driver that produces them.
//
// Driver is the seam: the NVML calls that this project makes, in plain Go types. pkg/devices/nvml forwards them to the
// real library, pkg/devices/sim answers them from memory with the driver's own rules, and pkg/devices/devicestest is the
// contract that both pass. Hardware is the adapter above the seam: it opens GPUs by PCI bus id, bounds every call in time,
// hides the quirks of the driver, and turns what it reads into a Node.
package devices
