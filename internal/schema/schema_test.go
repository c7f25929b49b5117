// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package schema_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuslice/internal/schema"
)

type inner struct {
	Count uint64 `json:"count"`
}

type printed struct {
	inner
	Name  string           `json:"name"`
	Tags  []string         `json:"tags,omitempty"`
	Other map[string]inner `json:"other"`
	On    *bool            `json:"on,omitempty"`
}

func encode(t *testing.T, s schema.Schema) string {
	t.Helper()
	text, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(text)), " ")
}

func TestDocument(t *testing.T) {
	got := encode(t, schema.Document("x", reflect.TypeFor[printed](), map[string]string{"printed.Name": "What it is called."}))
	want := `{ "$schema": "https://json-schema.org/draft/2020-12/schema", "properties": { ` +
		`"count": { "minimum": 0, "type": "integer" }, ` +
		`"name": { "description": "What it is called.", "type": "string" }, ` +
		`"on": { "type": "boolean" }, ` +
		`"other": { "additionalProperties": { "properties": { "count": { "minimum": 0, "type": "integer" } }, "required": [ "count" ], "type": "object" }, "type": "object" }, ` +
		`"tags": { "items": { "type": "string" }, "type": "array" } }, ` +
		`"required": [ "count", "name", "other" ], "title": "x", "type": "object" }`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
}

type words []string

type accepted struct {
	Ways  *ways          `yaml:"ways,omitempty"`
	Each  map[string]int `yaml:"each"`
	Words words          `yaml:"words"`
}

type ways struct {
	A string `yaml:"a"`
	B bool   `yaml:"b"`
}

func TestConfig(t *testing.T) {
	rows := []schema.Field{
		{Path: "ways", Doc: "How.", OneOf: []string{"a", "b"}},
		{Path: "ways.a", Doc: "A.", Enum: []string{"x"}},
		{Path: "ways.b", Doc: "B.", Default: "false"},
		{Path: "each", Doc: "Each.", Keys: "^k$", Min: 1, Max: 2, Required: true},
		{Path: "words", Doc: "Words.", Pattern: "^w$"},
	}
	s, err := schema.Config("x", reflect.TypeFor[accepted](), rows)
	if err != nil {
		t.Fatal(err)
	}
	want := `{ "$schema": "https://json-schema.org/draft/2020-12/schema", "additionalProperties": false, "properties": { ` +
		`"each": { "additionalProperties": { "maximum": 2, "minimum": 1, "type": "integer" }, "description": "Each.", "propertyNames": { "pattern": "^k$" }, "type": "object" }, ` +
		`"ways": { "additionalProperties": false, "description": "How.", "oneOf": [ { "required": [ "a" ] }, { "required": [ "b" ] } ], "properties": { ` +
		`"a": { "description": "A.", "enum": [ "x" ], "type": "string" }, "b": { "description": "B. Default: false.", "type": "boolean" } }, "type": "object" }, ` +
		`"words": { "anyOf": [ { "pattern": "^w$", "type": [ "string", "integer" ] }, { "items": { "pattern": "^w$", "type": [ "string", "integer" ] }, "minItems": 1, "type": "array" } ], "description": "Words." } }, ` +
		`"required": [ "each" ], "title": "x", "type": "object" }`
	if diff := cmp.Diff(want, encode(t, s)); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
}

// A field that nobody documents, and a row of a field that is gone, are errors that name them.
func TestRowsAndFieldsMatch(t *testing.T) {
	_, err := schema.Config("x", reflect.TypeFor[ways](), []schema.Field{{Path: "a"}, {Path: "c"}})
	if err == nil || !strings.Contains(err.Error(), "b (ways.B) has no row") || !strings.Contains(err.Error(), "c has a row and is no field") {
		t.Errorf("got %v", err)
	}
}

func TestReplace(t *testing.T) {
	page := "a\n<!-- generated: fields of SharingConfig -->\nold\n<!-- end of generated -->\nb\n"
	table := schema.Table([]schema.Field{{Path: "a.b", Values: "`x`", Default: "y", Doc: "Does it."}})
	got, err := schema.Replace([]byte(page), "fields of SharingConfig", table)
	want := "a\n<!-- generated: fields of SharingConfig -->\n| field | values | default | what it does |\n|---|---|---|---|\n| `a.b` | `x` | y | Does it. |\n<!-- end of generated -->\nb\n"
	if err != nil || string(got) != want {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := schema.Replace([]byte("no marks\n"), "fields of SharingConfig", table); err == nil {
		t.Error("a page without marks is accepted")
	}
}

func TestComments(t *testing.T) {
	got, err := schema.Comments("config.go")
	if err != nil || got["Field.Doc"] != "what it does, one sentence" {
		t.Errorf("comment of Field.Doc is %q, %v", got["Field.Doc"], err)
	}
}
