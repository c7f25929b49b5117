// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package schema

import (
	"encoding/json"
	"reflect"
	"strings"
)

// dialect is the version of JSON Schema that is written.
const dialect = "https://json-schema.org/draft/2020-12/schema"

// Schema is a JSON Schema or a part of one.
type Schema map[string]any

// Encode prints a schema; equal schemas print equally.
func (s Schema) Encode() ([]byte, error) {
	text, err := json.MarshalIndent(s, "", "  ")
	return append(text, '\n'), err
}

// Document describes what a type is printed as, by its json tags: a field without omitempty is always there, and keys that
// the schema does not know are allowed, because keys are only ever added. Comments are those of the fields, by "Type.Field".
func Document(title string, t reflect.Type, comments map[string]string) Schema {
	s := printed(t, comments)
	s["$schema"], s["title"] = dialect, title
	return s
}

func printed(t reflect.Type, comments map[string]string) Schema {
	switch t.Kind() {
	case reflect.Pointer:
		return printed(t.Elem(), comments)
	case reflect.Struct:
		properties, required := Schema{}, []string{}
		printedFields(t, comments, properties, &required)
		return Schema{"type": "object", "properties": properties, "required": required}
	case reflect.Slice:
		return Schema{"type": "array", "items": printed(t.Elem(), comments)}
	case reflect.Map:
		return Schema{"type": "object", "additionalProperties": printed(t.Elem(), comments)}
	default:
		return scalar(t.Kind())
	}
}

// printedFields adds the fields of a struct, and those of structs in it as encoding/json prints them.
func printedFields(t reflect.Type, comments map[string]string, properties Schema, required *[]string) {
	for f := range t.Fields() {
		if f.Anonymous && f.Tag.Get("json") == "" {
			printedFields(f.Type, comments, properties, required)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		p := printed(f.Type, comments)
		if text := comments[t.Name()+"."+f.Name]; text != "" {
			p["description"] = text
		}
		properties[name] = p
		if !strings.Contains(options, "omitempty") {
			*required = append(*required, name)
		}
	}
}

func scalar(k reflect.Kind) Schema {
	switch k {
	case reflect.Bool:
		return Schema{"type": "boolean"}
	case reflect.String:
		return Schema{"type": "string"}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return Schema{"type": "integer", "minimum": 0}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return Schema{"type": "integer"}
	default:
		return Schema{}
	}
}
