// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package nvidia

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"gpuslice/internal/config"
	"gpuslice/internal/config/strict"
)

// MIGParted is a config of mig-parted: named ways to cut the GPUs of a node. The zero value has no names.
type MIGParted struct {
	Version string           `yaml:"version"`
	Configs map[string][]Cut `yaml:"mig-configs"`
}

// Cut says how some GPUs are cut.
type Cut struct {
	DeviceFilter config.List    `yaml:"device-filter"`
	Devices      GPUs           `yaml:"devices"`
	Enabled      bool           `yaml:"mig-enabled"`
	Instances    map[string]int `yaml:"mig-devices"`
}

// LoadMIGParted reads and checks a config of mig-parted. The error is an Issues with everything that is wrong.
func LoadMIGParted(file string, text []byte) (MIGParted, error) {
	c, _, err := readMIGParted(file, text)
	if err != nil {
		return MIGParted{}, err
	}
	return c, nil
}

func readMIGParted(file string, text []byte) (MIGParted, *strict.Document, error) {
	c, d, err := strict.Read[MIGParted](file, text, "version and mig-configs")
	if err != nil {
		return MIGParted{}, d, err
	}
	check{d}.migParted(c)
	return c, d, d.Err()
}

func (d check) migParted(c MIGParted) {
	if !d.Has("version") {
		d.Add("version", "is missing; want %s", version)
	}
	d.version(c.Version)
	if len(c.Configs) == 0 {
		d.Add("mig-configs", "no configs are listed; want such as all-1g.10gb: [{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}]")
	}
	for name, cuts := range c.Configs {
		field := strict.Join("mig-configs", name)
		if len(cuts) == 0 {
			d.Add(field, "a config needs at least one entry")
		}
		for i, cut := range cuts {
			d.cut(fmt.Sprintf("%s[%d]", field, i), cut)
		}
	}
}

func (d check) cut(field string, c Cut) {
	for _, key := range []string{"devices", "mig-enabled"} {
		if at := strict.Join(field, key); !d.Has(at) {
			d.Add(at, "is missing")
		}
	}
	filter := strict.Join(field, "device-filter")
	for _, text := range c.DeviceFilter {
		d.AddFault(filter, config.DeviceFault(text))
	}
	d.instances(field, c)
	for name, n := range c.Instances {
		at := strict.Join(strict.Join(field, "mig-devices"), name)
		if !profileText().MatchString(name) {
			d.Add(at, "%q is not a profile name such as 3g.40gb or 1g.10gb+me", strict.Clip(name))
		}
		if n < 0 || n > config.MaxSlices {
			d.Add(at, "%d instances, want 0 to %d", n, config.MaxSlices)
		}
	}
}

// instances checks whether there are some exactly where MIG is on.
func (d check) instances(field string, c Cut) {
	instances := strict.Join(field, "mig-devices")
	switch {
	case !c.Enabled && len(c.Instances) > 0 && !d.HasIssue(strict.Join(field, "mig-enabled")):
		d.Add(instances, "instances are listed and mig-enabled is false")
	case c.Enabled && !d.Has(instances):
		d.Add(instances, "is missing; want such as {1g.10gb: 7}, or {} for MIG mode without instances")
	case len(c.Instances) > 0 && c.total() == 0:
		d.Add(instances, "every count is 0; want {} for MIG mode without instances")
	}
}

func (c Cut) total() int {
	n := 0
	for _, count := range c.Instances {
		n += min(max(count, 0), config.MaxSlices)
	}
	return n
}

const attributeText = `[a-z][a-z0-9.]*`

// profileText has the compute slices, which may stand before those of the GPU instance, in its first two groups.
var profileText = onDemand(`^(?:([1-9][0-9]?)c\.)?(([1-9][0-9]?)g\.[0-9]{1,6}gb(?:\+` + attributeText + `(?:,` + attributeText + `)*)?(?:-` + attributeText + `)?)$`)

// Select says which GPUs the cut is for.
func (c Cut) Select() *config.Select {
	s := config.Select{Index: c.Devices.Index, Device: c.DeviceFilter}
	switch {
	case len(s.Index) > 0: // named one by one, they must be able to follow
	case c.Enabled:
		s.MIGCapable = new(true) // mig-parted passes the others over
	case len(s.Device) == 0:
		return nil
	}
	return &s
}

// Layout is the native way to say the same of one GPU.
func (c Cut) Layout() (config.Layout, error) {
	if !c.Enabled {
		return config.Layout{}, nil
	}
	counts := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(c.Instances)) {
		n := c.Instances[name]
		if n == 0 {
			continue
		}
		parts := profileText().FindStringSubmatch(name)
		if parts == nil || parts[1] != "" && parts[1] != parts[3] {
			return config.Layout{}, fmt.Errorf("%s: instances of which the compute instance does not fill the GPU instance are not made here", strconv.Quote(name))
		}
		counts[parts[2]] += n
	}
	if len(counts) == 0 {
		return config.Layout{MIG: &config.MIG{Fill: config.FillNone}}, nil
	}
	return config.Layout{MIG: &config.MIG{Instances: counts}}, nil
}

// Find returns the last cut of a config that is for a GPU. mig-parted leaves GPUs that cannot be cut out of what is for all.
func (m MIGParted) Find(name string, g config.Facts) (index int, ok bool) {
	cuts := m.Configs[name]
	for i, c := range slices.Backward(cuts) {
		if c.Select().Fits(g) && (g.MIGCapable || !c.Devices.All) {
			return i, true
		}
	}
	return 0, false
}

// Names lists the configs.
func (m MIGParted) Names() []string { return slices.Sorted(maps.Keys(m.Configs)) }
