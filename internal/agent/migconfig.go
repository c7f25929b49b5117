// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpuslice/internal/config"
	"gpuslice/internal/config/nvidia"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/mig"
)

// MIGConfig is the config of mig-parted's that a node follows.
type MIGConfig struct {
	Asked string // by the node's label; "" = none
	Name  string // in force: what is asked for, or, when nobody knows that, the last one that was known
	Fault string // why what is asked for cannot be followed
}

// Offline is what a SharingConfig says without a cluster: of NVIDIA's configs it knows the well-known ones only.
func Offline(c config.Sharing, labels map[string]string, n devices.Node) Config {
	all := Config{Sharing: c}
	names := ImportNames(c)
	for _, i := range imports {
		if i.isBuiltIn(names[i]) {
			all.MIGParted = &nvidia.MIGParted{}
		} else if names[i] != "" {
			all.Problems = append(all.Problems, Problem{
				Reason: ReasonImportMissing, Message: fmt.Sprintf("configmap %s is read by the running agent only; convert its content to see what it does", names[i]),
			})
		}
	}
	all.choose(labels, "", n)
	return all
}

// choose finds the config that the node's label asks for. It is pure.
func (c *Config) choose(labels map[string]string, last string, n devices.Node) {
	c.MIGConfig = MIGConfig{}
	if c.MIGParted == nil {
		return
	}
	asked := labels[nvidia.MIGPartedLabel]
	c.MIGConfig = MIGConfig{Asked: asked, Name: asked}
	if asked == "" || len(n.GPUs) == 0 {
		return
	}
	switch fits, known := c.usable(asked, n); {
	case !known:
		c.MIGConfig.Name = ""
		if _, known := c.usable(last, n); known {
			c.MIGConfig.Name = last
		}
		c.MIGConfig.Fault = fmt.Sprintf("label %s=%s names no config that is known here; known are %s", nvidia.MIGPartedLabel, asked, c.usableNames(n))
		c.Problems = append(c.Problems, Problem{Reason: ReasonMIGConfigUnknown, Message: c.MIGConfig.Fault})
	case !fits:
		c.MIGConfig.Fault = fmt.Sprintf("config %s is for none of the %d GPUs here; for some are %s", asked, len(n.GPUs), c.usableNames(n))
		c.Problems = append(c.Problems, Problem{Reason: ReasonMIGConfigUnknown, Message: c.MIGConfig.Fault})
	}
}

// cut is what a config of mig-parted's says of one GPU.
type cut struct {
	layout config.Layout
	rule   string // where the config says so
}

// cutOf looks a config up in the file, and then among the well-known ones; ok is false where it says nothing of a GPU.
func (c *Config) cutOf(name string, g devices.GPU) (found cut, ok bool, err error) {
	if cuts, isListed := c.MIGParted.Configs[name]; isListed {
		i, ok := c.MIGParted.Find(name, factsOf(g))
		if !ok {
			return cut{}, false, nil
		}
		found.rule = fmt.Sprintf("%s[%d]", name, i)
		found.layout, err = cuts[i].Layout()
		return found, true, err
	}
	found.rule = name
	found.layout, ok = nvidia.BuiltIn(name, g.Geometry)
	return found, ok, nil
}

// usable says whether a config is known, and whether it says something of some GPU. One that turns MIG off everywhere fits a
// node without GPUs that can be cut.
func (c *Config) usable(name string, n devices.Node) (fits, known bool) {
	if cuts, isListed := c.MIGParted.Configs[name]; isListed {
		known = true
		fits = !slices.ContainsFunc(cuts, func(c nvidia.Cut) bool { return c.Enabled })
	}
	for _, g := range n.GPUs {
		_, ok, _ := c.cutOf(name, g) // a cut that is not made here is a fault of the GPU that it is for
		fits = fits || ok
	}
	return fits, known || fits
}

// maxConfigs bounds how many configs a message lists.
const maxConfigs = 40

// usableNames lists the configs that some GPU can follow and that none fails on.
func (c *Config) usableNames(n devices.Node) string {
	names := c.MIGParted.Names()
	for _, g := range n.GPUs {
		names = append(names, nvidia.BuiltInNames(g.Geometry)...)
	}
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(name string) bool { return !c.canFollow(name, n) })
	if more := len(names) - maxConfigs; more > 0 {
		return strings.Join(names[:maxConfigs], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return cmp.Or(strings.Join(names, ", "), "none")
}

func (c *Config) canFollow(name string, n devices.Node) bool {
	followed, tried := false, map[string]bool{}
	for _, g := range n.GPUs {
		cut, ok, err := c.cutOf(name, g)
		if err == nil && ok && !tried[g.Model] {
			tried[g.Model], followed = true, true
			_, _, err = wantOf(g, cut.layout, mig.InUse{})
		}
		if err != nil {
			return false
		}
	}
	return followed
}

// imported is what NVIDIA's configs say of a GPU that no rule of the SharingConfig is for; byMIG says that mig-parted's does.
func (c *Config) imported(g devices.GPU) (p config.Policy, byMIG bool, err error) {
	if c.DevicePlugin != nil {
		p = c.DevicePlugin.Policy()
		p.Rule = "devicePluginConfig " + c.NVIDIA.DevicePluginConfig
	}
	if c.MIGParted == nil || c.MIGConfig.Name == "" {
		return p, false, nil
	}
	cut, ok, err := c.cutOf(c.MIGConfig.Name, g)
	if !ok {
		return p, false, nil
	}
	// mig-parted resets GPUs whenever a mode asks for it; here that waits until nobody uses them.
	p.Managed, p.Layout, p.LayoutName, p.Reset = true, cut.layout, c.MIGConfig.Name, "when-idle"
	p.Rule = fmt.Sprintf("migPartedConfig %s %s", c.NVIDIA.MIGPartedConfig, cut.rule)
	return p, true, err
}

func factsOf(g devices.GPU) config.Facts {
	return config.Facts{
		Index: g.Index, UUID: g.UUID, Product: g.Product, MemoryMiB: g.MemoryMiB,
		PCIDevice: g.PCIDevice, PCISubsystem: g.PCISubsystem, MIGCapable: g.IsMIGCapable(),
	}
}
