// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package generate

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// deriveMemory fills in the memory sizes that no public transcript shows, by turning the name formula around.
// A profile name says round(k/8 * ceil(total GiB)) GB, where k/8 is the share of the memory, rounded up to eighths.
// Derived sizes serve simulation only.
func deriveMemory(m *model) error {
	if m.MemoryMiB == 0 {
		full := m.Rows[len(m.Rows)-1]
		gb, err := gigabytes(full.Name)
		if err != nil {
			return err
		}
		m.MemoryMiB = gb * 1024
	}
	for i, r := range m.Rows {
		if r.MemoryMiB != 0 {
			continue
		}
		gb, err := gigabytes(r.Name)
		if err != nil {
			return err
		}
		size, ok := largest(m.MemoryMiB, gb)
		if !ok {
			return fmt.Errorf("%s: no share of %d MiB has that name", r.Name, m.MemoryMiB)
		}
		m.Rows[i].MemoryMiB = size
	}
	return nil
}

// largest is the greatest size in MiB whose name says gb on a GPU with total MiB.
func largest(total, gb uint64) (uint64, bool) {
	whole := math.Ceil(float64(total) / 1024)
	for eighths := uint64(8); eighths > 0; eighths-- {
		if uint64(math.Round(float64(eighths)/8*whole)) == gb {
			return total * eighths / 8, true
		}
	}
	return 0, false
}

// gigabytes reads 40 out of "3g.40gb+me".
func gigabytes(name string) (uint64, error) {
	_, rest, _ := strings.Cut(name, ".")
	number, _, ok := strings.Cut(rest, "gb")
	gb, err := strconv.ParseUint(number, 10, 32)
	if !ok || err != nil {
		return 0, fmt.Errorf("profile name %q says no gigabytes", name)
	}
	return gb, nil
}
