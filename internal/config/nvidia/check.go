// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package nvidia

import (
	"fmt"
	"slices"
	"strings"

	"gpuslice/internal/config"
	"gpuslice/internal/config/strict"
)

// Values of the fields that have a fixed set of them.
var (
	migStrategies  = []string{"none", "single", "mixed"}
	discoveries    = []string{"auto", "nvml", "tegra", "vfio"}
	listStrategies = []string{"envvar", "volume-mounts", "cdi-annotations", "cdi-cri"}
	idStrategies   = []string{"uuid", "index"}
	policies       = []string{"distributed", "packed"}
)

// noEffect says why a key of the device plugin's config changes nothing here.
var noEffect = map[string]string{
	"flags.failOnInitError":            "the agent stays up without a driver and looks for it again",
	"flags.mpsRoot":                    "there are no MPS shares",
	"flags.nvidiaDriverRoot":           "the agent's flag --driver-root says where the driver is",
	"flags.nvidiaDevRoot":              "the agent's flag --dev-root says where the device nodes are",
	"flags.useNodeFeatureAPI":          "the agent writes node labels itself",
	"flags.plugin.passDeviceSpecs":     "device nodes are part of the CDI spec of every device",
	"flags.plugin.deviceListStrategy":  "the agent's flag --device-list-strategy says how devices reach the runtime",
	"flags.plugin.deviceIDStrategy":    "devices are named to the runtime by UUID",
	"flags.plugin.cdiAnnotationPrefix": "CDI devices are named in the kubelet's own field, not in annotations",
	"flags.plugin.nvidiaCTKPath":       "the agent's flag --nvidia-cdi-hook says where the hook program is",
	"flags.plugin.containerDriverRoot": "the agent's flag --driver-root says where the driver is",
	"flags.gfd.oneshot":                "node labels follow the GPUs for as long as the agent runs",
	"flags.gfd.noTimestamp":            "no label carries a time",
	"flags.gfd.sleepInterval":          "node labels follow the GPUs; the agent's flag --poll bounds the delay",
	"flags.gfd.outputFile":             "node labels are written through the API server",
	"flags.gfd.machineTypeFile":        "the agent writes node labels itself",
}

// check adds to a document what is wrong with the values that it holds.
type check struct{ *strict.Document }

func (d check) devicePlugin(c DevicePlugin) {
	d.version(c.Version)
	d.Enum("flags.migStrategy", c.Flags.MIGStrategy, migStrategies)
	d.Enum("flags.plugin.deviceIDStrategy", c.Flags.Plugin.DeviceIDStrategy, idStrategies)
	d.Enum("flags.plugin.sharedDevicesAllocationPolicy", c.Flags.Plugin.SharedDevicesAllocationPolicy, policies)
	d.unsupported(c)
	d.listStrategy(c.Flags.Plugin.DeviceListStrategy)
	d.resources(c.Resources)
	if d.Has("sharing.mps") {
		d.Add("sharing.mps", "MPS shares are not supported; share by sharing.timeSlicing")
	}
	d.replicated("sharing.timeSlicing", c.Sharing.TimeSlicing)
	for key, why := range noEffect {
		if d.Has(key) && !d.HasIssue(key) {
			d.Warn(key, "has no effect here: %s", why)
		}
	}
}

func (d check) version(got string) {
	if d.Has("version") && got != version {
		d.Add("version", "%q is not %s", strict.Clip(got), version)
	}
}

// unsupported refuses what would change what a container gets and cannot be had here.
func (d check) unsupported(c DevicePlugin) {
	refuse := func(field string, is bool, why string) {
		if is {
			d.Add(field, "%s", why)
		}
	}
	f := c.Flags
	refuse("flags.gdrcopyEnabled", f.GDRCopyEnabled, "true is not supported: containers do not get the devices of GDRCopy")
	refuse("flags.gdsEnabled", f.GDSEnabled, "true is not supported: containers do not get the devices of GPUDirect Storage")
	refuse("flags.mofedEnabled", f.MOFEDEnabled, "true is not supported: containers do not get the devices of MOFED")
	refuse("imex.channelIDs", len(c.IMEX.ChannelIDs) > 0, "IMEX channels are not supported: containers do not get them")
	refuse("imex.required", c.IMEX.Required, "true is not supported: containers do not get IMEX channels")
	const discovery = "flags.deviceDiscoveryStrategy"
	refuse(discovery, f.DeviceDiscoveryStrategy == "tegra", "tegra is not supported: GPUs are found through NVML only; want auto or nvml")
	refuse(discovery, f.DeviceDiscoveryStrategy == "vfio", "vfio is not supported: GPUs of virtual machines are not offered; want auto or nvml")
	d.Enum(discovery, f.DeviceDiscoveryStrategy, discoveries)
}

func (d check) listStrategy(strategies []string) {
	const field = "flags.plugin.deviceListStrategy"
	for _, s := range strategies {
		d.Enum(field, s, listStrategies)
		if s == "volume-mounts" {
			d.Add(field, "volume-mounts is not supported: devices reach the runtime by CDI or by environment; want cdi-cri, cdi-annotations or envvar")
		}
	}
}

// resources accepts what says the names that devices have anyway. The device plugin itself drops all other names at its
// start, so whoever has some would not get what the file says from either.
func (d check) resources(r *Resources) {
	if r == nil {
		return
	}
	for i, x := range r.GPUs {
		d.resource(fmt.Sprintf("resources.gpus[%d]", i), x, "nvidia.com/gpu", "name whole GPUs of a product by resourceNames in a SharingConfig")
	}
	for i, x := range r.MIG {
		want := "nvidia.com/mig-" + strings.ReplaceAll(x.Pattern, "+", ".")
		d.resource(fmt.Sprintf("resources.mig[%d]", i), x, want, "name instances by layouts.*.mig.resource in a SharingConfig")
	}
}

func (d check) resource(field string, r Resource, want, instead string) {
	switch {
	case r.Pattern == "":
		d.Add(strict.Join(field, "pattern"), "has no value")
	case r.Name == "":
		d.Add(strict.Join(field, "name"), "has no value")
	case config.WithDomain(r.Name) != want:
		d.Add(strict.Join(field, "name"), "%q is not %s, the name that these have anyway; NVIDIA's device plugin drops other names, here %s",
			strict.Clip(r.Name), strict.Clip(want), instead)
	}
}

func (d check) replicated(field string, r *Replicated) {
	list := strict.Join(field, "resources")
	if r == nil || d.HasIssue(list) {
		return
	}
	if len(r.Resources) == 0 {
		d.Add(list, "no resources are listed; want such as {name: nvidia.com/gpu, replicas: 4}")
	}
	for i, x := range r.Resources {
		at := fmt.Sprintf("%s[%d]", list, i)
		d.name(strict.Join(at, "name"), x.Name, "nvidia.com/gpu")
		if x.Rename != "" {
			d.name(strict.Join(at, "rename"), x.Rename, "nvidia.com/gpu.shared")
		}
		if x.Replicas < 2 || x.Replicas > config.MaxReplicas {
			d.Add(strict.Join(at, "replicas"), "%d is not between 2 and %d", x.Replicas, config.MaxReplicas)
		}
		if slices.ContainsFunc(r.Resources[:i], func(y ReplicatedResource) bool { return y.Name == x.Name && y.Devices.isAll() }) {
			d.Warn(at, "has no effect here: all devices of %s are shared by an entry before it", strict.Clip(x.Name))
		}
	}
}

func (d Devices) isAll() bool { return d.First == 0 && len(d.Only) == 0 }

// name takes names with NVIDIA's domain and without any.
func (d check) name(field, name, example string) {
	full := config.WithDomain(name)
	why := config.ResourceFault(full)
	if why == "" && !strings.HasPrefix(full, "nvidia.com/") {
		why = "the domain is not nvidia.com"
	}
	if why != "" {
		d.Add(field, "%q is not a resource name such as %s: %s", strict.Clip(name), example, why)
	}
}
