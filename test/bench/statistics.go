// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package main

import (
	"slices"
	"time"
)

// median of values, of which there is at least one; the mean of the middle two when their number is even.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// each times a call n times and returns the median in milliseconds.
func each(n int, call func(i int) error) (float64, error) {
	took := make([]float64, 0, n)
	for i := range n {
		start := time.Now()
		if err := call(i); err != nil {
			return 0, err
		}
		took = append(took, milliseconds(time.Since(start)))
	}
	return median(took), nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
