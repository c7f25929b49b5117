// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package state

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"gpuslice/pkg/health"
	"gpuslice/pkg/regular"
)

// Health is what is wrong with a GPU until evidence shows that it is over. It holds over boots, which are evidence themselves.
type Health struct {
	UUID string `json:"uuid"`
	// BootID and Load are the boot and the load of the driver that the rest is known to hold in.
	BootID string       `json:"bootId"`
	Load   string       `json:"load,omitempty"`
	State  health.State `json:"state"`
	// Cleared is the admin's word that was followed last, and Overruled what it was said against.
	Cleared   string    `json:"cleared,omitempty"`
	Overruled Overruled `json:"overruled,omitzero"`
}

// Overruled is what a GPU said of itself when an admin said that it is well: as long as it says the same, that is no news.
type Overruled struct {
	Next        bool                  `json:"next,omitempty"` // it could not be read then, so the next reading counts
	Action      health.RecoveryAction `json:"action,omitempty"`
	RemapFailed bool                  `json:"remapFailed,omitempty"`
}

// IsEmpty says that there is nothing to be kept.
func (h Health) IsEmpty() bool {
	return reflect.DeepEqual(h.State, health.State{}) && h.Cleared == "" && h.Overruled == Overruled{}
}

type healthFile struct {
	Version int    `json:"version"`
	Health  Health `json:"health"`
}

func (s *Store) healthPath(uuid string) (string, error) {
	if uuid == "" || strings.ContainsAny(uuid, "/\x00") || strings.HasPrefix(uuid, ".") {
		return "", fmt.Errorf("GPU UUID %q cannot be a file name", uuid)
	}
	return filepath.Join(s.dir, "health", uuid+".json"), nil
}

// BootID is the boot that this store was opened in.
func (s *Store) BootID() string { return s.bootID }

// SaveHealth keeps the health of a GPU; when it returns nil it survives any crash. With nothing to be kept the file goes.
func (s *Store) SaveHealth(h Health) error {
	path, err := s.healthPath(h.UUID)
	if err != nil {
		return err
	}
	if h.IsEmpty() {
		return Remove(path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("keep health of GPU %s: %w", h.UUID, err)
	}
	text, err := json.MarshalIndent(healthFile{Version: version, Health: h}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode health of GPU %s: %w", h.UUID, err)
	}
	return WriteFile(path, append(text, '\n'), 0o600)
}

// Healths reads what was kept, by UUID. A file that does not decode is set aside, alone, and named in bad.
func (s *Store) Healths() (all []Health, bad []UnreadableError, err error) {
	paths, err := filepath.Glob(filepath.Join(s.dir, "health", "*.json"))
	if err != nil {
		return nil, nil, fmt.Errorf("list health of GPUs: %w", err)
	}
	slices.Sort(paths)
	for _, path := range paths {
		h, err := s.readHealth(path)
		if err == nil {
			all = append(all, h)
			continue
		}
		uuid := strings.TrimSuffix(filepath.Base(path), ".json")
		bad = append(bad, UnreadableError{UID: uuid, error: err})
		if err := os.Rename(path, path+asideSuffix); err != nil {
			return nil, nil, fmt.Errorf("set health of GPU %s aside: %w", uuid, err)
		}
	}
	return all, bad, nil
}

func (s *Store) readHealth(path string) (Health, error) {
	text, err := regular.ReadFile(path, maxFile)
	if err != nil {
		return Health{}, fmt.Errorf("read health of a GPU: %w", err)
	}
	var f healthFile
	switch err := json.Unmarshal(text, &f); {
	case err != nil:
		return Health{}, fmt.Errorf("decode %s: %w", path, err)
	case f.Version < 1 || f.Version > version:
		return Health{}, fmt.Errorf("%s has version %d; valid: 1 to %d", path, f.Version, version)
	case f.Health.UUID+".json" != filepath.Base(path):
		return Health{}, fmt.Errorf("%s is about GPU %q", path, f.Health.UUID)
	}
	return f.Health, nil
}
