// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package state

import (
	"fmt"
	"path/filepath"
	"strings"

	"gpuslice/pkg/regular"
)

// BootID reads the kernel's id of this boot under a /proc tree.
func BootID(procRoot string) (string, error) {
	text, err := regular.ReadFile(filepath.Join(procRoot, "sys/kernel/random/boot_id"), 1<<10)
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
