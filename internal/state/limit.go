// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"gpuslice/pkg/regular"
)

// Limit is what one running container may take of the memory of one GPU. It stays what it was when the container started.
type Limit struct {
	Container string `json:"container"` // the runtime's id
	GPU       string `json:"gpu"`       // UUID
	Cgroup    string `json:"cgroup"`    // folder
	Hard      uint64 `json:"hard"`      // bytes
}

type limitFile struct {
	Version int    `json:"version"`
	BootID  string `json:"bootId"`
	Limit   Limit  `json:"limit"`
}

// limitName takes at most maxLimitName bytes.
var limitName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

const maxLimitName = 128

func (s *Store) limitPath(l Limit) (string, error) {
	for _, name := range []string{l.Container, l.GPU} {
		if len(name) > maxLimitName || !limitName.MatchString(name) {
			return "", fmt.Errorf("limit of container %q on GPU %q: %q cannot be part of a file name", l.Container, l.GPU, name)
		}
	}
	return filepath.Join(s.dir, "limits", l.Container+"+"+l.GPU+".json"), nil
}

// SaveLimit keeps a limit over a crash.
func (s *Store) SaveLimit(l Limit) error {
	path, err := s.limitPath(l)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("keep limit of container %s: %w", l.Container, err)
	}
	text, err := json.MarshalIndent(limitFile{Version: version, BootID: s.bootID, Limit: l}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode limit of container %s: %w", l.Container, err)
	}
	return WriteFile(path, append(text, '\n'), 0o600)
}

// DeleteLimit forgets a limit; an unknown one is success.
func (s *Store) DeleteLimit(l Limit) error {
	path, err := s.limitPath(l)
	if err != nil {
		return err
	}
	return Remove(path)
}

// Limits reads the limits of this boot, by container and GPU. Those of an earlier boot went with their cgroups, and a file that
// does not decode tells nothing.
func (s *Store) Limits() ([]Limit, error) {
	paths, err := filepath.Glob(filepath.Join(s.dir, "limits", "*.json"))
	if err != nil {
		return nil, fmt.Errorf("list limits: %w", err)
	}
	all := []Limit{}
	for _, path := range paths {
		text, err := regular.ReadFile(path, maxFile)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read limit: %w", err)
		}
		var f limitFile
		if json.Unmarshal(text, &f) != nil || f.BootID != s.bootID {
			if err := Remove(path); err != nil {
				return nil, err
			}
			continue
		}
		all = append(all, f.Limit)
	}
	return all, nil
}
