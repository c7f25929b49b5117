// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// document is a parsed text together with where its fields stand.
type document struct {
	file   string
	lines  map[string]int // field path -> line
	issues Issues
	// oversize says that something is too large to be decoded at all.
	oversize bool
}

// add notes what is wrong with a field, unless something is noted already: a value that is no number has no range either.
func (d *document) add(field, format string, args ...any) {
	if d.full() || slices.ContainsFunc(d.issues, func(i Issue) bool { return i.Field == field }) {
		return
	}
	line, path := d.lines[field], field
	for line == 0 && path != "" { // an absent field is reported where its parent stands
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
		line = d.lines[path]
	}
	d.issues = append(d.issues, Issue{File: d.file, Line: line, Field: field, Message: fmt.Sprintf(format, args...)})
}

// hasIssueUnder says that something inside a field is known to be wrong.
func (d *document) hasIssueUnder(field string) bool {
	return slices.ContainsFunc(d.issues, func(i Issue) bool { return strings.HasPrefix(i.Field, field+".") })
}

// maxIssues bounds what is reported at once, so that a megabyte of mistakes costs no more than a page of them.
const maxIssues = 100

// maxEntries bounds one mapping or list: the decoder compares the keys of a mapping pair by pair.
const maxEntries = 4096

func (d *document) full() bool { return len(d.issues) >= maxIssues }

// walk compares keys with the fields of t and remembers where everything stands.
func (d *document) walk(n *yaml.Node, t reflect.Type, path string) {
	d.lines[path] = n.Line
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if n.Kind == yaml.AliasNode {
		d.add(path, "YAML aliases are not supported; write the value out")
		return
	}
	if entries := len(n.Content); entries > maxEntries {
		d.add(path, "%d entries, at most %d are read", entries, maxEntries)
		d.oversize = true
		return
	}
	switch {
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Struct:
		d.walkStruct(n, t, path)
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Map:
		for i := 0; i+1 < len(n.Content); i += 2 {
			d.walk(n.Content[i+1], t.Elem(), join(path, n.Content[i].Value))
		}
	case n.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		for i, item := range n.Content {
			d.walk(item, t.Elem(), fmt.Sprintf("%s[%d]", path, i))
		}
	}
}

func (d *document) walkStruct(n *yaml.Node, t reflect.Type, path string) {
	fields := map[string]reflect.Type{}
	names := []string{}
	for i := range t.NumField() {
		if name := t.Field(i).Tag.Get("yaml"); name != "" {
			fields[name] = t.Field(i).Type
			names = append(names, name)
		}
	}
	for i := 0; i+1 < len(n.Content) && !d.full(); i += 2 {
		key := n.Content[i].Value
		field := join(path, key)
		if fieldType, ok := fields[key]; ok {
			d.walk(n.Content[i+1], fieldType, field)
			continue
		}
		d.lines[field] = n.Content[i].Line
		d.add(field, "unknown key%s", suggestion(key, names))
	}
}

// suggestion helps with a misspelt key, and with one that stands in the wrong place.
func suggestion(key string, here []string) string {
	if near := nearest(key, here); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	if places := placesOf(key); len(places) > 0 {
		return "; it belongs to " + strings.Join(places, " or ")
	}
	return "; valid keys are " + strings.Join(here, ", ")
}

// placesOf lists the paths under which the format knows a key.
func placesOf(key string) []string {
	places := []string{}
	var visit func(t reflect.Type, path string)
	visit = func(t reflect.Type, path string) {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch t.Kind() {
		default: // a scalar has no keys
		case reflect.Slice:
			visit(t.Elem(), path+"[]")
		case reflect.Map:
			visit(t.Elem(), path+".*")
		case reflect.Struct:
			for i := range t.NumField() {
				if name := t.Field(i).Tag.Get("yaml"); name != "" {
					if name == key {
						places = append(places, join(path, name))
					}
					visit(t.Field(i).Type, join(path, name))
				}
			}
		}
	}
	visit(reflect.TypeFor[Sharing](), "")
	slices.Sort(places)
	return places
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
