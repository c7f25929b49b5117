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
	line, path := d.lines[field], field
	for line == 0 && path != "" { // an absent field is reported where its parent stands
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
		line = d.lines[path]
	}
	d.addAt(line, field, format, args...)
}

func (d *document) addAt(line int, field, format string, args ...any) {
	if !d.full() && !d.hasIssue(field) {
		d.issues = append(d.issues, Issue{File: d.file, Line: line, Field: field, Message: fmt.Sprintf(format, args...)})
	}
}

// addFault notes a fault, if there is one.
func (d *document) addFault(field, fault string) {
	if fault != "" {
		d.add(field, "%s", fault)
	}
}

func (d *document) hasIssue(field string) bool {
	return slices.ContainsFunc(d.issues, func(i Issue) bool { return i.Field == field })
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

// walk compares keys and values with the fields of t and remembers where everything stands. What cannot be read it takes
// out of the tree, so that the rest can still be decoded and checked.
func (d *document) walk(n *yaml.Node, t reflect.Type, path string) {
	d.lines[path] = n.Line
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if entries := len(n.Content); entries > maxEntries {
		d.add(path, "%d entries, at most %d are read", entries, maxEntries)
		d.oversize = true
		return
	}
	if text := fault(n, t); text != "" {
		d.refuse(n, path, text)
		return
	}
	switch n.Kind {
	case yaml.MappingNode:
		d.walkKeys(n, path)
		if t.Kind() == reflect.Struct {
			d.walkStruct(n, t, path)
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			d.walkEntry(n.Content[i+1], t.Elem(), join(path, n.Content[i].Value))
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			d.walkEntry(item, t.Elem(), fmt.Sprintf("%s[%d]", path, i))
		}
	default: // a scalar holds nothing else
	}
}

// refuse notes what is wrong with a value and counts it as absent from here on.
func (d *document) refuse(n *yaml.Node, path, why string) {
	d.add(path, "%s", why)
	*n = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: n.Line}
}

// walkKeys takes out of a mapping what has no key of its own.
func (d *document) walkKeys(n *yaml.Node, path string) {
	kept := make([]*yaml.Node, 0, len(n.Content))
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if text := keyFault(key); text != "" {
			d.addAt(key.Line, path, "%s", text)
			continue
		}
		if first, twice := lines[key.Value]; twice {
			d.addAt(key.Line, join(path, key.Value), "already defined on line %d", first)
			continue
		}
		lines[key.Value] = key.Line
		kept = append(kept, key, n.Content[i+1])
	}
	n.Content = kept
}

// walkEntry walks an entry of a mapping or list, which unlike a field cannot be there without a value.
func (d *document) walkEntry(n *yaml.Node, t reflect.Type, path string) {
	if isNull(n) && (t.Kind() == reflect.String || t.Kind() == reflect.Int) {
		d.lines[path] = n.Line
		d.add(path, "has no value")
		return
	}
	d.walk(n, t, path)
}

// walkField walks a field, which as a selector cannot be there without saying what it selects.
func (d *document) walkField(n *yaml.Node, f reflect.StructField, path string) {
	if f.Tag.Get("empty") == "refused" && isEmpty(n) {
		d.lines[path] = n.Line
		d.refuse(n, path, "is empty and would fit everything; leave it out to mean that")
		return
	}
	d.walk(n, f.Type, path)
}

func (d *document) walkStruct(n *yaml.Node, t reflect.Type, path string) {
	fields := map[string]reflect.StructField{}
	names := []string{}
	for field := range t.Fields() {
		if name := field.Tag.Get("yaml"); name != "" {
			fields[name] = field
			names = append(names, name)
		}
	}
	for i := 0; i+1 < len(n.Content) && !d.full(); i += 2 {
		key := n.Content[i].Value
		field := join(path, key)
		if known, ok := fields[key]; ok {
			d.walkField(n.Content[i+1], known, field)
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
	return "; valid keys are " + listed(here)
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
			for field := range t.Fields() {
				if name := field.Tag.Get("yaml"); name != "" {
					if name == key {
						places = append(places, join(path, name))
					}
					visit(field.Type, join(path, name))
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
