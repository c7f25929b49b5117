// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package timeslice_test

import (
	"math"
	"testing"

	"gpuslice/pkg/timeslice"
)

// The parts of all shares fit into the memory that the driver leaves. Sums are worked out by hand, in MiB.
func TestShareMemory(t *testing.T) {
	const mib = 1 << 20
	for _, tc := range []struct {
		why             string
		total, reserved uint64
		replicas        int
		want            uint64 // 0 = an error
	}{
		{"an H100 in four: (81559 - 637) / 4", 81559 * mib, 637 * mib, 4, 20230 * mib},
		{"nothing is reserved", 24576 * mib, 0, 3, 8192 * mib},
		{"what is left over is nobody's", 1000 * mib, 0, 3, 333 * mib},
		{"bytes are left over, too", 10*mib + 5, 3, 1, 10 * mib},
		{"one share is all that the driver leaves", 16 * mib, 1 * mib, 1, 15 * mib},
		{"as many as a layout may have", 81559 * mib, 637 * mib, 65536, mib},
		{"less than a MiB for each", 81559 * mib, 637 * mib, 80923, 0},
		{"a total that the driver does not tell", 0, 0, 2, 0},
		{"more is reserved than there is", 10 * mib, 11 * mib, 2, 0},
		{"no share", 10 * mib, 0, 0, 0},
		{"a negative number of shares", 10 * mib, 0, -1, 0},
		{"the largest numbers", math.MaxUint64, math.MaxUint64, 2, 0},
	} {
		got, err := timeslice.ShareMemory(tc.total, tc.reserved, tc.replicas)
		if (err != nil) != (tc.want == 0) || got != tc.want {
			t.Errorf("%s: %d MiB, %v; want %d", tc.why, got/mib, err, tc.want/mib)
		}
	}
}

// The shares of one container on one GPU add up; a device twice in a record is one share.
func TestSharesOf(t *testing.T) {
	for _, tc := range []struct {
		why  string
		ids  []string
		want int
	}{
		{"two of this GPU, one of another", []string{"GPU-a::0", "GPU-b::0", "GPU-a::3"}, 2},
		{"the same one twice", []string{"GPU-a::1", "GPU-a::1"}, 1},
		{"a whole GPU is no share", []string{"GPU-a"}, 0},
		{"another GPU whose name begins alike", []string{"GPU-ab::0"}, 0},
		{"nothing", nil, 0},
	} {
		if got := timeslice.SharesOf("GPU-a", tc.ids); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.why, got, tc.want)
		}
	}
}
