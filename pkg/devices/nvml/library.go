// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package nvml

import (
	"os"
	"path/filepath"
)

// libraryName is what the loader looks for when no file is found under the driver root.
const libraryName = "libnvidia-ml.so.1"

// libraryDirs are where distributions and driver containers put the driver's libraries, in the order they are tried.
var libraryDirs = []string{
	"usr/lib64",
	"usr/lib/x86_64-linux-gnu",
	"usr/lib/aarch64-linux-gnu",
	"lib64",
	"lib/x86_64-linux-gnu",
	"lib/aarch64-linux-gnu",
}

// findLibrary returns the library's path under the driver root, or its bare name for the loader.
func findLibrary(root string) string {
	for _, dir := range libraryDirs {
		path := filepath.Join(root, dir, libraryName)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return libraryName
}
