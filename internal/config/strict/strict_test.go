// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package strict_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"gpuslice/internal/config/strict"
)

// size decodes itself from two forms.
type size struct{ N int }

func (size) Fault(n *yaml.Node) string {
	return strict.Unless(n.Kind == yaml.SequenceNode || n.Value == "big", n, "big or a list")
}

func (s *size) UnmarshalYAML(n *yaml.Node) error {
	s.N = len(n.Content)
	return nil
}

type format struct {
	Name  string          `yaml:"name,omitempty"`
	Size  size            `yaml:"size"`
	Parts map[string]part `yaml:"parts"`
	None  string          // no text can set it
}

type part struct {
	Count int    `yaml:"count"`
	Tags  []item `yaml:"tags"`
}

type item struct {
	Color string `yaml:"color"`
}

func TestKeys(t *testing.T) {
	want := []string{"name", "parts", "parts.*.count", "parts.*.tags", "parts.*.tags[].color", "size"}
	if diff := cmp.Diff(want, strict.Keys(reflect.TypeFor[format]())); diff != "" {
		t.Error(diff)
	}
}

// Everything that is wrong is said at once, in the order of the text, and what is right is decoded beside it.
func TestRead(t *testing.T) {
	v, d, err := strict.Read[format]("f", []byte("name: x\nsize: small\nparts:\n  a: {count: 3, tags: [{colour: red}]}\n  b: {color: red}\n"), "name")
	if err != nil || v.Name != "x" || v.Parts["a"].Count != 3 {
		t.Errorf("%+v, %v", v, err)
	}
	want := "f:2: size: \"small\" is not big or a list\n" +
		"f:4: parts.a.tags[0].colour: unknown key; did you mean color?\n" +
		"f:5: parts.b.color: unknown key; it belongs to parts.*.tags[].color"
	if got := fmt.Sprint(d.Err()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	d.Add("size", "a second word about it")
	d.Add("parts.b.count", "is missing") // stands where its parent does
	if got := fmt.Sprint(d.Err()); got != want+"\nf:5: parts.b.count: is missing" {
		t.Errorf("got\n%s", got)
	}
}

func TestWarningsAreNoMistakes(t *testing.T) {
	v, d, err := strict.Read[format]("f", []byte("size: [1, 2]\nname: x\n"), "name")
	if err != nil || v.Size.N != 2 {
		t.Fatalf("%+v, %v", v, err)
	}
	d.Warn("name", "late")
	d.Warn("size[1]", "early")
	if got := d.Warnings().Error(); got != "f:1: size[1]: early\nf:2: name: late" || d.Err() != nil {
		t.Errorf("warnings %q, mistakes %v", got, d.Err())
	}
}

func TestNoText(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "~\n"} {
		if _, d, err := strict.Read[format]("f", []byte(text), "name"); err != nil || !d.Empty || !strict.IsEmpty([]byte(text)) {
			t.Errorf("%q: %v", text, err)
		}
	}
	var issues strict.Issues
	if _, _, err := strict.Read[format]("f", []byte("- a"), "name"); !errors.As(err, &issues) || err.Error() != "f:1: want a mapping with name" {
		t.Errorf("a list: %v", err)
	}
}
