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
	if d.oversize {
		return Sharing{}, d.issues.sorted()
	}
	var c Sharing
	if err := root.Decode(&c); err != nil {
		d.typeErrors(err)
	}
	d.validate(c)
	if len(d.issues) > 0 {
		return Sharing{}, d.issues.sorted()
	}
	return c, nil
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
		line, message := splitLine(err.Error())
		return nil, Issues{{File: d.file, Line: line, Message: message}}
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

// typeErrors turns the decoder's messages, which have a line only, into issues with a field.
func (d *document) typeErrors(err error) {
	messages := []string{err.Error()}
	var types *yaml.TypeError
	if errors.As(err, &types) {
		messages = types.Errors
	}
	for _, m := range messages[:min(len(messages), maxIssues)] {
		line, text := splitLine(m)
		d.issues = append(d.issues, Issue{File: d.file, Line: line, Field: d.fieldAt(line), Message: plain(text)})
	}
}

// fieldAt returns the longest path that stands on a line.
func (d *document) fieldAt(line int) string {
	best := ""
	for field, at := range d.lines {
		if at == line && (len(field) > len(best) || len(field) == len(best) && field < best) {
			best = field
		}
	}
	return best
}

// plain rewords the decoder's Go-centred messages.
func plain(message string) string {
	value, kind, found := strings.Cut(strings.TrimPrefix(message, "cannot unmarshal "), " into ")
	if !found {
		return message
	}
	if i := strings.IndexByte(value, '`'); i >= 0 {
		value = value[i:]
	}
	switch {
	case kind == "int":
		kind = "a number"
	case kind == "bool":
		kind = "true or false"
	case kind == "string":
		kind = "text"
	case strings.HasPrefix(kind, "[]"):
		kind = "a list"
	default:
		kind = "a mapping"
	}
	return fmt.Sprintf("%s is not %s", value, kind)
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
