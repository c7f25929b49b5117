// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package timeslice

import "fmt"

// mebi is the step of limits: DRA counts the memory of shares in it, and smaller steps would name pages that no GPU has.
const mebi = 1 << 20

// ShareMemory is the part of one of n equal shares of a device in bytes, rounded down to a MiB. The driver keeps reserved of the
// total for itself.
func ShareMemory(total, reserved uint64, replicas int) (uint64, error) {
	if replicas < 1 || reserved > total {
		return 0, fmt.Errorf("%d bytes of memory, %d of them reserved, have no %d shares", total, reserved, replicas)
	}
	part := (total - reserved) / uint64(replicas) / mebi * mebi
	if part == 0 {
		return 0, fmt.Errorf("%d bytes of memory, %d of them reserved, are less than 1 MiB for each of %d shares", total, reserved, replicas)
	}
	return part, nil
}

// SharesOf counts the shares of a device among ids: those of one container add up.
func SharesOf(device string, ids []string) int {
	seen := map[Share]bool{}
	for _, id := range ids {
		if s, ok := ParseShare(id); ok && s.Device == device {
			seen[s] = true
		}
	}
	return len(seen)
}
