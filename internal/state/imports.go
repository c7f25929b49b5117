// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"gpuslice/pkg/regular"
)

// importPath is where a config in one of NVIDIA's formats, or its name, is kept.
func (s *Store) importPath(name string) string { return filepath.Join(s.dir, "nvidia-"+name) }

// SaveImport keeps the last good config in a format that is not ours; an empty text forgets it.
func (s *Store) SaveImport(name string, text []byte) error {
	if len(text) == 0 {
		return Remove(s.importPath(name))
	}
	return WriteFile(s.importPath(name), text, 0o600)
}

// Import returns what was kept under a name; nil when nothing was.
func (s *Store) Import(name string) ([]byte, error) {
	text, err := regular.ReadFile(s.importPath(name), maxFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read last good %s: %w", name, err)
	}
	return text, nil
}
