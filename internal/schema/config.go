// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package schema

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Field is what the type of a config does not say of one of its fields.
type Field struct {
	Path    string // "layouts.*.mig.fill", "nodes[].gpus[].layout"
	Values  string // which values are valid, for people
	Default string // what its absence means, for people; "" = it is required, or absent means nothing
	Doc     string // what it does, one sentence

	Enum     []string // the only valid values
	Pattern  string   // of a text, or of each text of a list
	Keys     string   // pattern of the keys of a mapping
	Min, Max int      // of a number, or of each value of a mapping; 0, 0 = not bounded here
	Required bool
	OneOf    []string // of the fields below this one, exactly one is there
}

// Config describes what may stand in a config of a type, by its yaml tags: other keys are refused.
func Config(title string, t reflect.Type, fields []Field) (Schema, error) {
	w := writer{rows: map[string]Field{}, seen: map[string]bool{}}
	for _, f := range fields {
		w.rows[f.Path] = f
	}
	s := w.accepted(t, "")
	s["$schema"], s["title"] = dialect, title
	for _, f := range fields {
		if !w.seen[f.Path] {
			w.errs = append(w.errs, fmt.Errorf("%s has a row and is no field", f.Path))
		}
	}
	return s, errors.Join(w.errs...)
}

// writer walks a type and looks up the row of each field.
type writer struct {
	rows map[string]Field
	seen map[string]bool
	errs []error
}

func (w *writer) accepted(t reflect.Type, path string) Schema {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	row := w.rows[path]
	switch {
	case t.Kind() == reflect.Struct && !hasKeys(t): // read by its own rules
		return Schema{"type": []string{"boolean", "string"}}
	case t.Kind() == reflect.Struct:
		return w.object(t, path)
	case t.Kind() == reflect.Map:
		return w.mapping(t, path)
	case t.Kind() == reflect.Slice:
		return w.list(t, path)
	default:
		return row.narrow(scalar(t.Kind()))
	}
}

func (w *writer) mapping(t reflect.Type, path string) Schema {
	row := w.rows[path]
	s := Schema{"type": "object"}
	if t.Elem().Kind() == reflect.Struct {
		s["additionalProperties"] = w.accepted(t.Elem(), path+".*")
	} else {
		s["additionalProperties"] = row.narrow(scalar(t.Elem().Kind()))
	}
	if row.Keys != "" {
		s["propertyNames"] = Schema{"pattern": row.Keys}
	}
	return s
}

func (w *writer) list(t reflect.Type, path string) Schema {
	row := w.rows[path]
	switch {
	case t.Name() != "": // it may be written as one value
		item := row.narrow(Schema{"type": []string{"string", "integer"}})
		return Schema{"anyOf": []Schema{item, {"type": "array", "items": item, "minItems": 1}}}
	case t.Elem().Kind() == reflect.Struct:
		return Schema{"type": "array", "items": w.accepted(t.Elem(), path+"[]")}
	default:
		return Schema{"type": "array", "items": row.narrow(scalar(t.Elem().Kind()))}
	}
}

func hasKeys(t reflect.Type) bool {
	for f := range t.Fields() {
		if key(f) != "" {
			return true
		}
	}
	return false
}

// key is what a field is called in a config; "" = it is none.
func key(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	return name
}

func (w *writer) object(t reflect.Type, path string) Schema {
	properties, required := Schema{}, []string{}
	for f := range t.Fields() {
		name := key(f)
		if name == "" {
			continue
		}
		at := strings.TrimPrefix(path+"."+name, ".")
		row, known := w.rows[at]
		if w.seen[at] = true; !known {
			w.errs = append(w.errs, fmt.Errorf("%s (%s.%s) has no row that documents it", at, t.Name(), f.Name))
		}
		p := w.accepted(f.Type, at)
		p["description"] = row.description()
		properties[name] = p
		if row.Required {
			required = append(required, name)
		}
	}
	s := Schema{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	if one := w.rows[path].OneOf; len(one) > 0 {
		s["oneOf"] = ways(one)
	}
	return s
}

func ways(names []string) []Schema {
	all := []Schema{}
	for _, name := range names {
		all = append(all, Schema{"required": []string{name}})
	}
	return all
}

func (f Field) description() string {
	text := f.Doc
	if f.Default != "" {
		text += " Default: " + f.Default + "."
	}
	return text
}

// narrow adds what the row says of single values.
func (f Field) narrow(s Schema) Schema {
	if len(f.Enum) > 0 {
		s["enum"] = slices.Clone(f.Enum)
	}
	if f.Pattern != "" {
		s["pattern"] = f.Pattern
	}
	if f.Min != 0 || f.Max != 0 {
		s["minimum"], s["maximum"] = f.Min, f.Max
	}
	return s
}
