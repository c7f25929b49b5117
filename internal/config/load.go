// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxBytes bounds a config; a ConfigMap cannot be larger.
const MaxBytes = 1 << 20

// Load reads and checks a config. The error is an Issues with everything that is wrong. An empty text is no config:
// every GPU is unmanaged.
func Load(file string, text []byte) (Sharing, error) {
	d := &document{file: file, lines: map[string]int{}}
	if len(text) > MaxBytes {
		return Sharing{}, Issues{{File: file, Message: fmt.Sprintf("%d bytes, at most %d are read", len(text), MaxBytes)}}
	}
	root, err := d.parse(text)
	if err != nil {
		return Sharing{}, err
	}
	if root == nil {
		return Sharing{APIVersion: APIVersion, Kind: Kind}, nil
	}
	d.walk(root, reflect.TypeFor[Sharing](), "")
	if d.oversize || d.full() {
		return Sharing{}, d.issues.sorted()
	}
	var c Sharing
	if err := root.Decode(&c); err != nil {
		return Sharing{}, append(d.issues, d.unreadable(err)).sorted()
	}
	d.validate(c)
	if len(d.issues) > 0 {
		return Sharing{}, d.issues.sorted()
	}
	return c, nil
}

// IsEmpty says that a text has no content, such as one of comments only: Load reads it as no config, and whoever was
// promised one can tell that it holds nothing.
func IsEmpty(text []byte) bool {
	if len(text) > MaxBytes {
		return false
	}
	root, err := (&document{}).parse(text)
	return root == nil && err == nil
}

// parse returns nil for a text without content.
func (d *document) parse(text []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var root, more yaml.Node
	err := decoder.Decode(&root)
	if errors.Is(err, io.EOF) {
		return nil, nil //nolint:nilnil // no content is a valid config and has no node
	}
	if err != nil {
		return nil, Issues{d.unreadable(err)}
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, Issues{{File: d.file, Line: more.Line, Message: "a second YAML document; a config is one"}}
	}
	body := root.Content[0]
	if body.Kind == yaml.ScalarNode && body.Tag == "!!null" {
		return nil, nil //nolint:nilnil // comments only
	}
	if body.Kind != yaml.MappingNode {
		return nil, Issues{{File: d.file, Line: body.Line, Message: "want a mapping with apiVersion and kind"}}
	}
	return body, nil
}

// unreadable turns an error of the parser or decoder, which knows of lines only, into an issue.
func (d *document) unreadable(err error) Issue {
	line, message := splitLine(err.Error())
	return Issue{File: d.file, Line: line, Message: clipTo(message, maxField)}
}

// splitLine takes "line 7: " (after an optional "yaml: ") off a message.
func splitLine(message string) (int, string) {
	message = strings.TrimPrefix(message, "yaml: ")
	rest, ok := strings.CutPrefix(message, "line ")
	if !ok {
		return 0, message
	}
	number, text, found := strings.Cut(rest, ": ")
	line, err := strconv.Atoi(number)
	if !found || err != nil {
		return 0, message
	}
	return line, text
}
