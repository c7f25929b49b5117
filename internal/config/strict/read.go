// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package strict

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

// MaxBytes bounds a text; a ConfigMap cannot be larger.
const MaxBytes = 1 << 20

// Read decodes a text into a T as far as it can be read. The document holds the mistakes up to here; the error is an Issues
// and says that there is nothing to go on with. must names the keys that every text of the format has.
func Read[T any](file string, text []byte, must string) (v T, d *Document, err error) {
	d = &Document{file: file, format: reflect.TypeFor[T](), lines: map[string]int{}}
	if len(text) > MaxBytes {
		return v, d, Issues{{File: file, Message: fmt.Sprintf("%d bytes, at most %d are read", len(text), MaxBytes)}}
	}
	root, err := d.parse(text, must)
	if err != nil {
		return v, d, err
	}
	if d.Empty = root == nil; d.Empty {
		return v, d, nil
	}
	d.walk(root, d.format, "")
	if d.oversize || d.Full() {
		return v, d, d.Err()
	}
	if err := root.Decode(&v); err != nil {
		return v, d, append(d.issues, d.unreadable(err)).sorted()
	}
	return v, d, nil
}

// IsEmpty says that a text has no content, such as one of comments only.
func IsEmpty(text []byte) bool {
	if len(text) > MaxBytes {
		return false
	}
	root, err := (&Document{}).parse(text, "")
	return root == nil && err == nil
}

// parse returns nil for a text without content.
func (d *Document) parse(text []byte, must string) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var root, more yaml.Node
	err := decoder.Decode(&root)
	if errors.Is(err, io.EOF) {
		return nil, nil //nolint:nilnil // no content is valid and has no node
	}
	if err != nil {
		return nil, Issues{d.unreadable(err)}
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, Issues{{File: d.file, Line: more.Line, Message: "a second YAML document; a config is one"}}
	}
	body := root.Content[0]
	if isNull(body) {
		return nil, nil //nolint:nilnil // comments only
	}
	if body.Kind != yaml.MappingNode {
		return nil, Issues{{File: d.file, Line: body.Line, Message: "want a mapping with " + must}}
	}
	return body, nil
}

// unreadable turns an error of the parser or decoder, which knows of lines only, into an issue.
func (d *Document) unreadable(err error) Issue {
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
