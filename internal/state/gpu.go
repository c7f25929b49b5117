// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gpuslice/pkg/regular"
)

// GPU is what this agent changed on a GPU, with the value from before, and what it learnt of it in this boot.
type GPU struct {
	UUID string `json:"uuid"`
	// Persistence says that persistence mode was on, and was turned off for a change of the MIG mode.
	Persistence bool `json:"persistence,omitempty"`
	// Interval is the driver's time slice from before this agent set another; empty when it did not.
	Interval string `json:"interval,omitempty"`
	// ResetFailed is why a reset did not bring the GPU into its mode: only a reboot will.
	ResetFailed string `json:"resetFailed,omitempty"`
	// MemoryLimited says that a limit on the memory of a running container was read back.
	MemoryLimited bool `json:"memoryLimited,omitempty"`
}

type gpuFile struct {
	Version int    `json:"version"`
	BootID  string `json:"bootId"`
	GPU     GPU    `json:"gpu"`
}

func (s *Store) gpuPath(uuid string) (string, error) {
	if uuid == "" || strings.ContainsAny(uuid, "/\x00") || strings.HasPrefix(uuid, ".") {
		return "", fmt.Errorf("GPU UUID %q cannot be a file name", uuid)
	}
	return filepath.Join(s.dir, "gpus", uuid+".json"), nil
}

// SaveGPU keeps what is to be known of a GPU after a crash; with nothing to be known the file goes.
func (s *Store) SaveGPU(g GPU) error {
	path, err := s.gpuPath(g.UUID)
	if err != nil {
		return err
	}
	if g == (GPU{UUID: g.UUID}) {
		return Remove(path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("keep GPU %s: %w", g.UUID, err)
	}
	text, err := json.MarshalIndent(gpuFile{Version: version, BootID: s.bootID, GPU: g}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode GPU %s: %w", g.UUID, err)
	}
	return WriteFile(path, append(text, '\n'), 0o600)
}

// GPUs reads what was kept in this boot, by UUID; a reboot undoes what earlier ones tell of, and a file that does not decode
// tells nothing.
func (s *Store) GPUs() ([]GPU, error) {
	paths, err := filepath.Glob(filepath.Join(s.dir, "gpus", "*.json"))
	if err != nil {
		return nil, fmt.Errorf("list GPUs: %w", err)
	}
	slices.Sort(paths)
	all := []GPU{}
	for _, path := range paths {
		g, ok, err := readGPU(path, s.bootID)
		if err == nil && !ok {
			err = Remove(path)
		}
		if err != nil {
			return nil, err
		}
		if ok {
			all = append(all, g)
		}
	}
	return all, nil
}

// PeekGPUs is GPUs of another process's state directory and changes nothing there.
func PeekGPUs(dir, bootID string) ([]GPU, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "gpus", "*.json"))
	if err != nil {
		return nil, fmt.Errorf("list GPUs: %w", err)
	}
	all := []GPU{}
	for _, path := range paths {
		g, ok, err := readGPU(path, bootID)
		if err != nil {
			return nil, err
		}
		if ok {
			all = append(all, g)
		}
	}
	return all, nil
}

func readGPU(path, bootID string) (g GPU, ok bool, err error) {
	text, err := regular.ReadFile(path, maxFile)
	if errors.Is(err, os.ErrNotExist) {
		return GPU{}, false, nil
	}
	if err != nil {
		return GPU{}, false, fmt.Errorf("read GPU: %w", err)
	}
	var f gpuFile
	ok = json.Unmarshal(text, &f) == nil && f.BootID == bootID
	return f.GPU, ok, nil
}
