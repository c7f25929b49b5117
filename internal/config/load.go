// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package config

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"

	"gpuslice/internal/config/strict"
)

// MaxBytes bounds a config; a ConfigMap cannot be larger.
const MaxBytes = strict.MaxBytes

// Issue is one thing that is wrong with a config.
type Issue = strict.Issue

// Issues is everything that is wrong.
type Issues = strict.Issues

// Load reads and checks a config. The error is an Issues with everything that is wrong. An empty text is no config:
// every GPU is unmanaged.
func Load(file string, text []byte) (Sharing, error) {
	c, d, err := strict.Read[Sharing](file, text, "apiVersion and kind")
	switch {
	case err != nil:
		return Sharing{}, err
	case d.Empty:
		return Sharing{APIVersion: APIVersion, Kind: Kind}, nil
	}
	check{d}.sharing(c)
	if err := d.Err(); err != nil {
		return Sharing{}, err
	}
	return c, nil
}

// Admit loads a config that somebody has configured: an empty one is a file half written, and not a wish for nothing.
func Admit(name string, text []byte) (Sharing, error) {
	c, err := Load(name, text)
	if err == nil && IsEmpty(text) {
		err = Issues{{File: name, Message: "is empty; a config that manages nothing has apiVersion and kind and no nodes"}}
	}
	return c, err
}

// IsEmpty says that a text has no content, such as one of comments only: Load reads it as no config, and whoever was
// promised one can tell that it holds nothing.
func IsEmpty(text []byte) bool { return strict.IsEmpty(text) }

// YAML writes a config such that Load reads it back.
func (c Sharing) YAML() ([]byte, error) {
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := encoder.Encode(c); err != nil {
		return nil, fmt.Errorf("write config: %w", err)
	}
	return text.Bytes(), nil
}
