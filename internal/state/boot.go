// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package state

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// BootID reads the kernel's id of this boot under a /proc tree.
func BootID(procRoot string) (string, error) {
	text, err := os.ReadFile(filepath.Join(procRoot, "sys/kernel/random/boot_id"))
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
