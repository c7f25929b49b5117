// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import "gpuslice/pkg/devices"

// instanceID is the driver's id of a GPU instance: its place in the tree of halves, quarters and eighths of the physical
// memory (0 whole; 1, 2; 3 to 6; 7 to 14), as the open kernel module numbers its swizz ids. It is never a counter.
// Placements are logical: on a board whose missing compute slice lies in the first physical half the halves are swapped.
func instanceID(m model, at devices.Placement, swapped bool) int {
	parts := m.memorySlices / at.Size
	part := at.Start / at.Size
	if swapped {
		part ^= parts / 2
	}
	return parts - 1 + part
}
