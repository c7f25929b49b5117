// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package command_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	sorting "slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"

	"gpuslice/internal/agent"
	"gpuslice/internal/config"
	"gpuslice/internal/config/nvidia"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
	"gpuslice/pkg/mig"
)

// examples lists every SharingConfig of examples/.
func examples(t *testing.T) []string {
	t.Helper()
	few, errFew := filepath.Glob("../../examples/*.yaml")
	all, err := filepath.Glob("../../examples/config/*.yaml")
	if errors.Join(errFew, err) != nil || len(all) == 0 {
		t.Fatalf("examples: %v, %v, %v", all, errFew, err)
	}
	return append(few, all...)
}

// machineOf is a node of four GPUs of a model as it comes out of the box.
func machineOf(t *testing.T, model string) *devices.Hardware {
	t.Helper()
	machine, err := sim.Parse("4x" + model)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(machine.Close)
	return devices.New(machine.Open(sim.Admin("test")), devices.Options{Program: machine.Program(), Holders: machine.HoldersFor("test")})
}

var appliesOn = regexp.MustCompile(`^# applies fully on: (.+)\n`)

// modelsOf is the models that the first comment of an example lists.
func modelsOf(t *testing.T, path string) []string {
	t.Helper()
	m := appliesOn.FindSubmatch(read(t, path))
	if m == nil {
		t.Fatalf("%s does not begin with %q", path, "# applies fully on: MODEL, MODEL")
	}
	switch list := string(m[1]); list {
	case "every model":
		return sim.Models()
	case "every model that can be cut":
		return sorting.DeleteFunc(sim.Models(), func(model string) bool {
			return !snapshot(t, machineOf(t, model)).GPUs[0].IsMIGCapable()
		})
	default:
		return strings.Split(list, ", ")
	}
}

func snapshot(t *testing.T, hw *devices.Hardware) devices.Node {
	t.Helper()
	node, err := hw.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// Every example on every model (M06): every rule of it applies fully on the models that it lists, and on all others each GPU
// either follows it fully or says why it cannot and stays as it was.
func TestExamplesOnEveryModel(t *testing.T) {
	for _, path := range examples(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			c, err := config.Load(path, read(t, path))
			if err != nil {
				t.Fatal(err)
			}
			fully := []string{}
			for _, model := range sim.Models() {
				follows := true
				for i, rule := range c.Nodes {
					rule.Match, rule.Paused = nil, false
					alone := c
					alone.Nodes = []config.Node{rule}
					follows = applies(t, machineOf(t, model), alone, fmt.Sprintf("%s, nodes[%d]", model, i)) && follows
				}
				if follows {
					fully = append(fully, model)
				}
			}
			if diff := cmp.Diff(sorting.Sorted(sorting.Values(modelsOf(t, path))), fully); diff != "" {
				t.Errorf("models on which it applies fully (-listed +found):\n%s", diff)
			}
		})
	}
}

// The same for configs in NVIDIA's formats, by what they are converted to.
func TestNVIDIAExamplesOnEveryModel(t *testing.T) {
	const plugin, parted = "../../examples/nvidia/time-slicing.yaml", "../../examples/nvidia/mig-parted.yaml"
	cuts, err := nvidia.LoadMIGParted(parted, read(t, parted))
	if err != nil {
		t.Fatal(err)
	}
	inputs := map[string][]nvidia.Input{plugin: {{DevicePluginFile: plugin, DevicePlugin: read(t, plugin)}}}
	for _, name := range cuts.Names() {
		inputs[parted] = append(inputs[parted], nvidia.Input{MIGPartedFile: parted, MIGParted: read(t, parted), Selected: name})
	}
	for path, all := range inputs {
		fully := []string{}
		for _, model := range sim.Models() {
			follows := true
			for _, in := range all {
				c, warnings, err := nvidia.Convert(in)
				if err != nil || len(warnings) > 0 {
					t.Fatalf("%s %s: %v, %v", path, in.Selected, warnings, err)
				}
				follows = applies(t, machineOf(t, model), c, model+" "+in.Selected) && follows
			}
			if follows {
				fully = append(fully, model)
			}
		}
		if diff := cmp.Diff(sorting.Sorted(sorting.Values(modelsOf(t, path))), fully); diff != "" {
			t.Errorf("%s: models on which it applies fully (-listed +found):\n%s", path, diff)
		}
	}
}

// applies carries a config out and says whether all GPUs follow it.
func applies(t *testing.T, hw *devices.Hardware, c config.Sharing, what string) bool {
	t.Helper()
	all := true
	before := snapshot(t, hw)
	for _, target := range agent.Compile(agent.Config{Sharing: c}, "node", nil, before, agent.Usage{}) {
		if len(target.Problems) > 0 {
			all = false
			if p := target.Problems[0]; len(target.Problems) > 1 || p.Reason != agent.ReasonImpossible || !target.Plan.IsEmpty() {
				t.Errorf("%s: neither followed nor impossible: %v, %s", what, target.Problems, target.Plan)
			}
			continue
		}
		if err := mig.Apply(t.Context(), hw.On(target.GPU.PCI), target.Plan); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i, target := range agent.Compile(agent.Config{Sharing: c}, "node", nil, snapshot(t, hw), agent.Usage{}) {
		if !target.Plan.IsEmpty() {
			t.Errorf("%s: read back, there is still something to do: %s", what, target.Plan)
		}
		if was := before.GPUs[i]; len(target.Problems) > 0 && target.GPU.String() != was.String() {
			t.Errorf("%s: cannot follow and was changed from %s to %s", what, was, target.GPU)
		}
	}
	return all
}

// M08: the variants of one profile keep legal names of their own, and every name leads back to its profile.
func TestVariantsOfAProfileKeepTheirNames(t *testing.T) {
	gpu := snapshot(t, machineOf(t, "rtx-pro-6000-blackwell-se-96gb")).GPUs[0]
	want := map[string]string{
		"1g.24gb": "mig-1g.24gb", "1g.24gb+me": "mig-1g.24gb.me", "1g.24gb-me": "mig-1g.24gb-me",
		"1g.24gb+me.all": "mig-1g.24gb.me.all", "1g.24gb+gfx": "mig-1g.24gb.gfx",
	}
	got := map[string]string{}
	for _, o := range gpu.Geometry.Offers() {
		name := "mig-" + o.Profile.ResourceSuffix()
		for _, key := range []string{"nvidia.com/" + name, "nvidia.com/" + name + ".shared", "nvidia.com/" + name + ".count"} {
			if faults := validation.IsQualifiedName(key); len(faults) > 0 {
				t.Errorf("%s: %v", key, faults)
			}
		}
		// The documented way back: the first dot behind the size was a plus.
		size := strings.Index(name, "gb") + len("gb")
		back := strings.TrimPrefix(name[:size]+strings.Replace(name[size:], ".", "+", 1), "mig-")
		if p, _, err := gpu.Geometry.Resolve(back); err != nil || p.ID != o.Profile.ID {
			t.Errorf("%s becomes %s and leads back to %s, %v", o.Profile, name, p, err)
		}
		if _, variant := want[o.Profile.Name]; variant {
			got[o.Profile.Name] = name
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}
