// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"gpuslice/internal/agent"
	"gpuslice/internal/config/nvidia"
	"gpuslice/pkg/devices/sim"
)

// named is a config that mig-parted is shipped with: what it makes of GPUs with some PCI devices, or of any.
type named struct {
	name    string
	wants   string // "off", "empty", or "1g.10gb:2 3g.40gb:1"
	devices []string
}

func namedConfigs(t *testing.T) (all []named, names []string) {
	t.Helper()
	text, err := os.ReadFile("testdata/named-configs.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		columns := strings.Split(strings.TrimSpace(line), "\t")
		if strings.HasPrefix(line, "#") {
			continue
		}
		c := named{name: columns[0], wants: columns[1]}
		if len(columns) > 2 {
			c.devices = strings.Split(columns[2], ",")
		}
		all = append(all, c)
		names = append(names, c.name)
	}
	return all, slices.Compact(names)
}

// expected is what the machine must be after a named config, by the table; "" = not applicable there. A profile that the model
// does not have, by its own table, makes a config not applicable.
func expected(all []named, name string, g sim.GPU, profiles map[string]bool) string {
	head := fmt.Sprintf("gpu-0 %s", g.Model)
	for _, c := range all {
		listed := len(c.devices) == 0 || slices.Contains(c.devices, fmt.Sprintf("0x%08X", g.PCIDeviceID))
		switch {
		case c.name != name || !listed:
		case c.wants == "off" && len(profiles) == 0:
			return head
		case c.wants == "off":
			return head + " mig=off"
		case len(profiles) == 0:
			return ""
		case c.wants == "empty":
			return head + " mig=on"
		case !slices.ContainsFunc(strings.Fields(c.wants), func(w string) bool { return !profiles[strings.Split(w, ":")[0]] }):
			return head + " mig=on " + c.wants
		}
	}
	return ""
}

// counted turns the machine's own account of its one GPU into the form of the table.
func (n *node) counted() string {
	fields := strings.Fields(strings.NewReplacer("[", " ", "]", " ").Replace(n.machine.Dump()))
	counts, order := map[string]int{}, []string{}
	for _, f := range fields[min(3, len(fields)):] {
		profile, _, _ := strings.Cut(f, "@")
		if counts[profile]++; counts[profile] == 1 {
			order = append(order, profile)
		}
	}
	slices.Sort(order)
	text := strings.Join(fields[:min(3, len(fields))], " ")
	for _, profile := range order {
		text += fmt.Sprintf(" %s:%d", profile, counts[profile])
	}
	return text
}

// profilesOf are the names in the model's table, read through the driver.
func (n *node) profilesOf() map[string]bool {
	n.converge()
	view, _ := n.View()
	names := map[string]bool{}
	for _, o := range view.Node.GPUs[0].Geometry.Offers() {
		names[o.Profile.Name] = true
	}
	return names
}

// M06: each of the configs that mig-parted is shipped with makes on each model exactly the profile and the count that it is
// shipped for, or is said not to be for that model; never a part of it.
func TestNamedConfigsOnEveryModel(t *testing.T) {
	all, names := namedConfigs(t)
	if len(names) != 81 {
		t.Fatalf("%d names, want 81", len(names))
	}
	applied, refused := 0, 0
	for _, model := range sim.Models() {
		n, converted := newNode(t, "1x"+model), newNode(t, "1x"+model)
		profiles := n.profilesOf()
		n.apply(builtIn)
		for _, name := range names {
			before := n.counted()
			want := expected(all, name, n.machine.GPUs()[0], profiles)
			n.choose(migLabel, name)
			view, _ := n.View()
			if want == "" {
				refused++
				if got := n.counted(); got != before {
					t.Errorf("%s on %s is not applicable and made %s of %s", name, model, got, before)
				}
				n.problem(agent.ReasonMIGConfigUnknown, name)
				continue
			}
			applied++
			if got := n.counted(); got != want || len(view.Problems) > 0 {
				t.Errorf("%s on %s made %s, want %s; problems %v", name, model, got, want, view.Problems)
			}
			converted.converts(name, want)
		}
	}
	t.Logf("%d of %d applied, the others are not applicable there", applied, applied+refused)
	if applied < 100 {
		t.Errorf("%d configs were applied", applied)
	}
}

// converts wants the same by way of our own format.
func (n *node) converts(name, want string) {
	n.t.Helper()
	c, _, err := nvidia.Convert(nvidia.Input{MIGPartedFile: "builtin", Selected: name})
	if err != nil {
		n.t.Errorf("%s: %v", name, err)
		return
	}
	text, err := c.YAML()
	if err != nil {
		n.t.Fatal(err)
	}
	n.apply(string(text))
	if view, _ := n.View(); n.counted() != want || len(view.Problems) > 0 {
		n.t.Errorf("%s converted made %s, want %s; problems %v", name, n.counted(), want, view.Problems)
	}
}
