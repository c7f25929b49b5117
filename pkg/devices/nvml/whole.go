// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package nvml

import (
	"debug/elf"
	"fmt"
	"os"

	"gpuslice/pkg/devices"
)

// whole refuses a file that is no library, or of which a part is not there yet: the loader maps such a part all the same, and
// touching it ends the process.
func whole(path string) error {
	file, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", path, err, devices.ErrLibraryNotFound)
	}
	if !file.Mode().IsRegular() {
		return fmt.Errorf("%s is no file: %w", path, devices.ErrLibraryNotFound)
	}
	library, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s is no whole library: %w: %w", path, err, devices.ErrLibraryNotFound)
	}
	defer library.Close()
	for _, p := range library.Progs {
		if end := p.Off + p.Filesz; p.Type == elf.PT_LOAD && (end < p.Off || end > uint64(file.Size())) {
			return fmt.Errorf("%s has %d bytes and needs %d, as if it were still being copied: %w", path, file.Size(), end, devices.ErrLibraryNotFound)
		}
	}
	return nil
}
