// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"gpuslice/pkg/regular"
)

// What the Node said last, and what was in force then, for starts without an API server.
const (
	labelsName      = "labels.json"
	annotationsName = "annotations.json"
	policiesName    = "policies.json"
)

// SaveLabels keeps the labels of the node, by which the config chooses.
func (s *Store) SaveLabels(labels map[string]string) error { return s.saveWords(labelsName, labels) }

// Labels returns the labels that were kept last; known is false when there never were any, or when they are not readable
// any more: then the node is asked again.
func (s *Store) Labels() (labels map[string]string, known bool, err error) {
	return s.words(labelsName)
}

// SaveAnnotations keeps the annotations of the node that ask something of the agent.
func (s *Store) SaveAnnotations(annotations map[string]string) error {
	return s.saveWords(annotationsName, annotations)
}

// Annotations is to SaveAnnotations what Labels is to SaveLabels.
func (s *Store) Annotations() (annotations map[string]string, known bool, err error) {
	return s.words(annotationsName)
}

func (s *Store) saveWords(name string, words map[string]string) error {
	text, err := json.Marshal(words)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return WriteFile(filepath.Join(s.dir, name), append(text, '\n'), 0o600)
}

func (s *Store) words(name string) (words map[string]string, known bool, err error) {
	text, err := s.read(name)
	if err != nil || text == nil {
		return nil, false, err
	}
	known = json.Unmarshal(text, &words) == nil
	return words, known, nil
}

// SavePolicies keeps what is in force on each GPU, in the agent's own words.
func (s *Store) SavePolicies(text []byte) error {
	return WriteFile(filepath.Join(s.dir, policiesName), text, 0o600)
}

// Policies returns what was kept; nil when nothing was.
func (s *Store) Policies() ([]byte, error) { return s.read(policiesName) }

func (s *Store) read(name string) ([]byte, error) {
	text, err := regular.ReadFile(filepath.Join(s.dir, name), maxFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return text, nil
}
