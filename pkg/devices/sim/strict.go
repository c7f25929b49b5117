// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// unknownKeys lists the keys of a document that T has no field for, each with its line and the valid keys.
func unknownKeys[T any](document *yaml.Node) []error {
	return unknownIn(document, reflect.TypeFor[T]())
}

func unknownIn(n *yaml.Node, t reflect.Type) []error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var errs []error
	switch {
	case n.Kind == yaml.DocumentNode || n.Kind == yaml.SequenceNode:
		if t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		for _, child := range n.Content {
			errs = append(errs, unknownIn(child, t)...)
		}
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Struct:
		return unknownInStruct(n, keysOf(t))
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Map:
		for i := 1; i < len(n.Content); i += 2 {
			errs = append(errs, unknownIn(n.Content[i], t.Elem())...)
		}
	}
	return errs
}

func unknownInStruct(n *yaml.Node, fields []reflect.StructField) []error {
	var errs []error
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := slices.IndexFunc(fields, func(f reflect.StructField) bool { return f.Tag.Get("yaml") == key.Value })
		if at < 0 {
			errs = append(errs, fmt.Errorf("line %d: unknown key %q; valid keys: %s", key.Line, key.Value, keyList(fields)))
			continue
		}
		errs = append(errs, unknownIn(value, fields[at].Type)...)
	}
	return errs
}

func keysOf(t reflect.Type) []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool { return f.Tag.Get("yaml") == "" })
}

func keyList(fields []reflect.StructField) string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Tag.Get("yaml")
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
