// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package nvidia_test

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuslice/internal/config"
	"gpuslice/internal/config/nvidia"
	"gpuslice/internal/config/strict"
)

// row says what becomes of one key of a format.
type row struct{ key, text, effect string }

func rows(t *testing.T, path string) []row {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := []row{}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		columns := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(columns) != 3 {
			t.Fatalf("%s: %q has %d columns", path, line, len(columns))
		}
		all = append(all, row{columns[0], columns[1], columns[2]})
	}
	return all
}

// Every key is in the table, and every row of the table is about a key: nothing is passed over in silence.
func TestTablesCoverEveryKey(t *testing.T) {
	for path, format := range map[string]reflect.Type{
		"testdata/device-plugin-keys.tsv": reflect.TypeFor[nvidia.DevicePlugin](),
		"testdata/mig-parted-keys.tsv":    reflect.TypeFor[nvidia.MIGParted](),
	} {
		keys := strict.Keys(format)
		keys = slices.DeleteFunc(keys, func(key string) bool { // mappings of keys have no value of their own
			return slices.ContainsFunc(keys, func(other string) bool {
				return strings.HasPrefix(other, key+".") || strings.HasPrefix(other, key+"[")
			}) && key != "mig-configs"
		})
		covered := map[string]bool{}
		for _, r := range rows(t, path) {
			covered[r.key] = true
		}
		if diff := cmp.Diff(keys, slices.Sorted(maps.Keys(covered))); diff != "" {
			t.Errorf("%s: (-keys +rows)\n%s", path, diff)
		}
	}
}

func TestEveryKeyOfTheDevicePlugin(t *testing.T) {
	none, _, err := nvidia.LoadDevicePlugin("f", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows(t, "testdata/device-plugin-keys.tsv") {
		c, warnings, err := nvidia.LoadDevicePlugin("f", []byte(r.text))
		kind, want, _ := strings.Cut(r.effect, " ")
		switch got := describe(c.Policy()); kind {
		case "policy":
			if err != nil || got != want || got == describe(none.Policy()) {
				t.Errorf("%s: %v, policy\n%s, want\n%s", r.text, err, got, want)
			}
		case "warning":
			if err != nil || got != describe(none.Policy()) || warnings.Error() != "f:1: "+want {
				t.Errorf("%s: %v, policy %s, warnings\n%v, want\n%s", r.text, err, got, warnings, want)
			}
		case "error":
			if err == nil || err.Error() != "f:1: "+want {
				t.Errorf("%s:\n%v, want\n%s", r.text, err, want)
			}
		default:
			t.Errorf("%s: effect %q", r.text, r.effect)
		}
	}
}

// describe is everything that a device plugin's config can say of GPUs.
func describe(p config.Policy) string {
	lines := []string{}
	if p.MIGStrategy != "" {
		lines = append(lines, "strategy="+p.MIGStrategy)
	}
	for _, s := range p.Shares {
		line := fmt.Sprintf("share %s x%d as %s", s.Of.Resource, s.Replicas, s.Rename.As(s.Of.Resource))
		if s.Of.First > 0 {
			line += fmt.Sprintf(", the first %d", s.Of.First)
		}
		if len(s.Of.Only) > 0 {
			line += ", only " + strings.Join(s.Of.Only, " ")
		}
		if s.Policy != "" {
			line += ", policy " + s.Policy
		}
		if s.OnePerContainer {
			line += ", one for each container"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}

func TestEveryKeyOfMIGParted(t *testing.T) {
	for _, r := range rows(t, "testdata/mig-parted-keys.tsv") {
		c, err := nvidia.LoadMIGParted("f", []byte(r.text))
		switch kind, want, _ := strings.Cut(r.effect, " "); kind {
		case "cut":
			if err != nil {
				t.Errorf("%s: %v", r.text, err)
				continue
			}
			cut := c.Configs["it"][0]
			layout, err := cut.Layout()
			if got := selected(cut.Select()) + ": " + cutOf(layout); err != nil || got != want {
				t.Errorf("%s: %v\n%s, want\n%s", r.text, err, got, want)
			}
		case "error":
			if err == nil || err.Error() != "f:1: "+want {
				t.Errorf("%s:\n%v, want\n%s", r.text, err, want)
			}
		default:
			t.Errorf("%s: effect %q", r.text, r.effect)
		}
	}
}

func selected(s *config.Select) string {
	if s == nil {
		return "every GPU"
	}
	parts := []string{}
	if len(s.Index) > 0 {
		parts = append(parts, fmt.Sprintf("index %v", s.Index))
	}
	if len(s.Device) > 0 {
		parts = append(parts, fmt.Sprintf("device %v", s.Device))
	}
	if s.MIGCapable != nil && *s.MIGCapable {
		parts = append(parts, "GPUs that can be cut")
	}
	return strings.Join(parts, " ")
}

func cutOf(l config.Layout) string {
	switch {
	case l.MIG == nil:
		return "whole"
	case l.MIG.Fill == "none":
		return "MIG without instances"
	}
	parts := []string{}
	for _, name := range slices.Sorted(maps.Keys(l.MIG.Instances)) {
		parts = append(parts, fmt.Sprintf("%s x%d", name, l.MIG.Instances[name]))
	}
	return strings.Join(parts, " ")
}
