// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build cgo

package nvml_test

import (
	"testing"

	"gpuslice/pkg/devices/nvml"
)

// BenchmarkPrint is what a look at the driver's files costs; one is made every other second, so 1 ms would be 0.05 % of a core.
func BenchmarkPrint(b *testing.B) {
	root := b.TempDir()
	for b.Loop() {
		_ = nvml.Print(root)
	}
}

// BenchmarkPrintOfTheHost is the same with the longest paths that are looked up, those of this machine.
func BenchmarkPrintOfTheHost(b *testing.B) {
	for b.Loop() {
		_ = nvml.Print("/")
	}
}
