// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package strict

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxEntries bounds one mapping or list: the decoder compares the keys of a mapping pair by pair.
const maxEntries = 4096

// walk compares keys and values with the fields of t and remembers where everything stands. What cannot be read it takes
// out of the tree, so that the rest can still be decoded and checked.
func (d *Document) walk(n *yaml.Node, t reflect.Type, path string) {
	d.lines[path] = n.Line
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if entries := len(n.Content); entries > maxEntries {
		d.Add(path, "%d entries, at most %d are read", entries, maxEntries)
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
			d.walkEntry(n.Content[i+1], t.Elem(), Join(path, n.Content[i].Value))
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			d.walkItem(item, t, fmt.Sprintf("%s[%d]", path, i))
		}
	default: // a scalar holds nothing else
	}
}

// refuse notes what is wrong with a value and counts it as absent from here on.
func (d *Document) refuse(n *yaml.Node, path, why string) {
	d.Add(path, "%s", why)
	*n = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: n.Line}
}

// walkKeys takes out of a mapping what has no key of its own.
func (d *Document) walkKeys(n *yaml.Node, path string) {
	kept := make([]*yaml.Node, 0, len(n.Content))
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if text := keyFault(key); text != "" {
			d.addAt(key.Line, path, "%s", text)
			continue
		}
		if first, twice := lines[key.Value]; twice {
			d.addAt(key.Line, Join(path, key.Value), "already defined on line %d", first)
			continue
		}
		lines[key.Value] = key.Line
		kept = append(kept, key, n.Content[i+1])
	}
	n.Content = kept
}

// walkItem walks an item of a list; those of a type that decodes itself it leaves to that type.
func (d *Document) walkItem(n *yaml.Node, list reflect.Type, path string) {
	if list.Kind() == reflect.Slice {
		d.walkEntry(n, list.Elem(), path)
		return
	}
	d.lines[path] = n.Line
}

// walkEntry walks an entry of a mapping or list, which unlike a field cannot be there without a value.
func (d *Document) walkEntry(n *yaml.Node, t reflect.Type, path string) {
	if isNull(n) && (t.Kind() == reflect.String || t.Kind() == reflect.Int) {
		d.lines[path] = n.Line
		d.Add(path, "has no value")
		return
	}
	d.walk(n, t, path)
}

// walkField walks a field, which as a selector cannot be there without saying what it selects.
func (d *Document) walkField(n *yaml.Node, f reflect.StructField, path string) {
	if f.Tag.Get("empty") == "refused" && isEmpty(n) {
		d.lines[path] = n.Line
		d.refuse(n, path, "is empty and would fit everything; leave it out to mean that")
		return
	}
	d.walk(n, f.Type, path)
}

func (d *Document) walkStruct(n *yaml.Node, t reflect.Type, path string) {
	fields := map[string]reflect.StructField{}
	names := []string{}
	for field := range t.Fields() {
		if name := keyOf(field); name != "" {
			fields[name] = field
			names = append(names, name)
		}
	}
	for i := 0; i+1 < len(n.Content) && !d.Full(); i += 2 {
		key := n.Content[i].Value
		field := Join(path, key)
		if known, ok := fields[key]; ok {
			d.walkField(n.Content[i+1], known, field)
			continue
		}
		d.lines[field] = n.Content[i].Line
		d.Add(field, "unknown key%s", d.suggestion(key, names))
	}
}

// suggestion helps with a misspelt key, and with one that stands in the wrong place.
func (d *Document) suggestion(key string, here []string) string {
	if near := nearest(key, here); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	if places := d.placesOf(key); len(places) > 0 {
		return "; it belongs to " + strings.Join(places, " or ")
	}
	return "; valid keys are " + Listed(here)
}

// placesOf lists the paths under which the format knows a key.
func (d *Document) placesOf(key string) []string {
	places := []string{}
	for _, path := range Keys(d.format) {
		if path == key || strings.HasSuffix(path, "."+key) {
			places = append(places, path)
		}
	}
	return places
}

// Keys lists the path of every key of a format, sorted: "nodes[].gpus[].select.index", "layouts.*.mig.fill".
func Keys(format reflect.Type) []string {
	keys := []string{}
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
				if name := keyOf(field); name != "" {
					keys = append(keys, Join(path, name))
					visit(field.Type, Join(path, name))
				}
			}
		}
	}
	visit(format, "")
	slices.Sort(keys)
	return keys
}

// keyOf is the key of a field, or "" for one that no text can set.
func keyOf(field reflect.StructField) string {
	key, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
	return key
}

// Join puts a key behind the path of the mapping that holds it.
func Join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
