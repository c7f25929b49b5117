// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package nvidia_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuslice/internal/config"
	"gpuslice/internal/config/nvidia"
	"gpuslice/pkg/mig"
)

// S03: what one component takes as a value and another as a list is taken as either, in YAML and in JSON.
func TestValueOrList(t *testing.T) {
	want := config.List{"envvar"}
	for _, text := range []string{
		"flags: {plugin: {deviceListStrategy: envvar}}",
		"flags: {plugin: {deviceListStrategy: [envvar]}}",
		"flags:\n  plugin:\n    deviceListStrategy:\n    - envvar\n",
		`{"flags": {"plugin": {"deviceListStrategy": "envvar"}}}`,
		`{"version": "v1", "flags": {"plugin": {"deviceListStrategy": ["envvar"]}}}`,
	} {
		c, _, err := nvidia.LoadDevicePlugin("f", []byte(text))
		if diff := cmp.Diff(want, c.Flags.Plugin.DeviceListStrategy); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", text, err, diff)
		}
	}
	for _, text := range []string{
		"version: v1\nmig-configs: {it: [{device-filter: '0x233010DE', devices: all, mig-enabled: false}]}",
		"version: v1\nmig-configs: {it: [{device-filter: ['0x233010DE'], devices: all, mig-enabled: false}]}",
		`{"version": "v1", "mig-configs": {"it": [{"device-filter": ["0x233010DE"], "devices": "all", "mig-enabled": false}]}}`,
	} {
		c, err := nvidia.LoadMIGParted("f", []byte(text))
		if err != nil || len(c.Configs["it"]) != 1 || len(c.Configs["it"][0].DeviceFilter) != 1 {
			t.Errorf("%s: %+v, %v", text, c, err)
		}
	}
}

// Mistakes beyond single keys, all of a text at once, each with its line.
func TestMistakes(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{
			"S01: a key in the wrong place is not passed over", "version: v1\nflags:\n  renameByDefault: true\n",
			"f:3: flags.renameByDefault: unknown key; it belongs to sharing.mps.renameByDefault or sharing.timeSlicing.renameByDefault",
		},
		{"misspelt", "flags: {migStratgy: single}", "f:1: flags.migStratgy: unknown key; did you mean migStrategy?"},
		{"a block without resources shares nothing", "sharing: {timeSlicing: {renameByDefault: true}}", "f:1: sharing.timeSlicing.resources: no resources are listed; want such as {name: nvidia.com/gpu, replicas: 4}"},
		{
			"all at once", "sharing:\n  timeSlicing:\n    resources:\n    - {name: other.com/gpu, replicas: 1}\n    - {name: gpu, devices: [GPU-1], replicas: 99999}\n",
			"f:4: sharing.timeSlicing.resources[0].name: \"other.com/gpu\" is not a resource name such as nvidia.com/gpu: the domain is not nvidia.com\n" +
				"f:4: sharing.timeSlicing.resources[0].replicas: 1 is not between 2 and 16384\n" +
				"f:5: sharing.timeSlicing.resources[1].devices: \"GPU-1\" is not a device such as 0, 0:1, GPU-UUID, MIG-UUID or MIG-GPU-UUID/GI/CI\n" +
				"f:5: sharing.timeSlicing.resources[1].replicas: 99999 is not between 2 and 16384",
		},
		{"no list", "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2, devices: []}]}}", "f:1: sharing.timeSlicing.resources[0].devices: a list is not all, a number of devices, or a list of such as 0, 0:1, GPU-UUID, MIG-UUID or MIG-GPU-UUID/GI/CI"},
		{"zero devices", "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2, devices: 0}]}}", "f:1: sharing.timeSlicing.resources[0].devices: 0 is not all, a number of devices, or a list of such as 0, 0:1, GPU-UUID, MIG-UUID or MIG-GPU-UUID/GI/CI"},
		{"strategy", "flags: {migStrategy: mix}", `f:1: flags.migStrategy: "mix" is not one of none, single, mixed; did you mean mixed?`},
		{"not YAML", "a: [", "f:1: "},
	} {
		_, _, err := nvidia.LoadDevicePlugin("f", []byte(tc.text))
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) || tc.want != "f:1: " && err.Error() != tc.want {
			t.Errorf("%s:\n%v, want\n%s", tc.name, err, tc.want)
		}
	}
	_, err := nvidia.LoadMIGParted("f", []byte("version: v1\nmig-configs:\n  a:\n  - devices: [x]\n    mig-enabled: yes\n    mig-device: {}\n"))
	want := "f:4: mig-configs.a[0].devices: \"x\" is not the index of a GPU such as 0\nf:5: mig-configs.a[0].mig-enabled: \"yes\" is not true or false\n" +
		"f:6: mig-configs.a[0].mig-device: unknown key; did you mean mig-devices?"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want\n%s", err, want)
	}
}

// A share that an earlier one leaves nothing to is said.
func TestShareWithoutEffect(t *testing.T) {
	_, warnings, err := nvidia.LoadDevicePlugin("f", []byte("sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2}, {name: gpu, replicas: 4}]}}"))
	want := "f:1: sharing.timeSlicing.resources[1]: has no effect here: all devices of gpu are shared by an entry before it"
	if err != nil || warnings.Error() != want {
		t.Errorf("%v, warnings %v", err, warnings)
	}
}

// M08: the five variants of one profile have five names, and each is found again.
func TestBuiltInNamesAreUnambiguous(t *testing.T) {
	offers := []mig.Offer{}
	for id, name := range []string{"1g.24gb", "1g.24gb+me", "1g.24gb-me", "1g.24gb+me.all", "1g.24gb+gfx"} {
		offers = append(offers, mig.Offer{Profile: mig.Profile{ID: id, Name: name, ComputeSlices: 1, MemorySlices: 1, MaxInstances: id + 1}, Starts: []int{0, 1, 2, 3}})
	}
	g, err := mig.NewGeometry(offers)
	if err != nil {
		t.Fatal(err)
	}
	for id, name := range []string{"all-1g.24gb", "all-1g.24gb.me", "all-1g.24gb-me", "all-1g.24gb.me.all", "all-1g.24gb.gfx"} {
		l, ok := nvidia.BuiltIn(name, g)
		want := config.Layout{MIG: &config.MIG{Instances: map[string]int{offers[id].Profile.Name: id + 1}}}
		if diff := cmp.Diff(want, l); !ok || diff != "" {
			t.Errorf("%s: %v\n%s", name, ok, diff)
		}
	}
	if _, ok := nvidia.BuiltIn("all-1g.23gb", g); ok {
		t.Error("a profile with nearly that name is taken for it")
	}
}

// Of several entries for one GPU the last counts, filters and indexes must both fit, and what is for all leaves GPUs out that
// cannot be cut.
func TestFind(t *testing.T) {
	c, err := nvidia.LoadMIGParted("f", []byte(`
version: v1
mig-configs:
  it:
  - {devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}
  - {device-filter: "0x20B510DE", devices: [1, 2], mig-enabled: false}
  - {devices: [3], mig-enabled: false}
`))
	if err != nil {
		t.Fatal(err)
	}
	const h100, a100 = 0x233010DE, 0x20B510DE
	for _, tc := range []struct {
		name  string
		facts config.Facts
		want  int
		ok    bool
	}{
		{"only the first fits", config.Facts{Index: 0, PCIDevice: h100, MIGCapable: true}, 0, true},
		{"index fits, filter does not", config.Facts{Index: 1, PCIDevice: h100, MIGCapable: true}, 0, true},
		{"both fit", config.Facts{Index: 1, PCIDevice: a100, MIGCapable: true}, 1, true},
		{"filter fits, index does not", config.Facts{Index: 0, PCIDevice: a100, MIGCapable: true}, 0, true},
		{"cannot be cut", config.Facts{Index: 0}, 0, false},
		{"cannot be cut and is named", config.Facts{Index: 3}, 2, true},
	} {
		if got, ok := c.Find("it", tc.facts); got != tc.want || ok != tc.ok {
			t.Errorf("%s: entry %d, %v; want %d, %v", tc.name, got, ok, tc.want, tc.ok)
		}
	}
	if _, ok := c.Find("other", config.Facts{MIGCapable: true}); ok {
		t.Error("a config that is not there says something")
	}
}

func FuzzLoad(f *testing.F) {
	for _, path := range []string{"testdata/device-plugin-keys.tsv", "testdata/mig-parted-keys.tsv"} {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if columns := strings.Split(line, "\t"); len(columns) == 3 {
				f.Add([]byte(columns[1]), "it")
			}
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, selected string) {
		var issues config.Issues
		_, _, err := nvidia.LoadDevicePlugin("f", text)
		c, errMIG := nvidia.LoadMIGParted("f", text)
		for _, err := range []error{err, errMIG} {
			if err != nil && !errors.As(err, &issues) {
				t.Errorf("%v is not a list of issues", err)
			}
		}
		for _, cuts := range c.Configs {
			for _, cut := range cuts {
				if l, err := cut.Layout(); err == nil && cut.Enabled != (l.MIG != nil) {
					t.Errorf("%+v becomes %+v", cut, l)
				}
			}
		}
		for _, in := range []nvidia.Input{
			{DevicePluginFile: "p", DevicePlugin: text},
			{MIGPartedFile: "m", MIGParted: text, Selected: selected},
			{DevicePluginFile: "p", DevicePlugin: text, MIGPartedFile: "m", MIGParted: text},
		} {
			c, _, err := nvidia.Convert(in)
			if err != nil {
				continue
			}
			printed, err := c.YAML()
			if err != nil {
				t.Fatal(err)
			}
			back, err := config.Load("converted", printed)
			if diff := cmp.Diff(c, back); err != nil || diff != "" {
				t.Errorf("%v\n%s\nprinted\n%s", err, diff, printed)
			}
		}
	})
}
