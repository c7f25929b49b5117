// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package schema

const (
	profile  = `[1-9][0-9]*g\.[0-9]{1,6}gb([+-][a-z]+(\.[a-z]+)?)?`
	anyGlob  = "pattern with `*` and `?`"
	absent   = "every GPU"
	overflow = 64
)

// ConfigFields documents each field of a SharingConfig, in the order in which people read about them. What a program checks
// beyond the type is a part of what `validate` checks; what depends on other fields or on the GPU only `validate` knows.
var ConfigFields = []Field{
	{Path: "apiVersion", Values: "`gpuslice.dev/v1alpha1`", Doc: "The version of the format.", Enum: []string{"gpuslice.dev/v1alpha1"}, Required: true},
	{Path: "kind", Values: "`SharingConfig`", Doc: "The kind of document.", Enum: []string{"SharingConfig"}, Required: true},
	{Path: "layouts", Values: "name: layout", Doc: "How a GPU may be offered; `{}` is the whole GPU. Built in are `whole`, `all-1g` (`fill: 1g`), `balanced` (`fill: balanced`) and `dynamic` (`dynamic: true`)."},
	{
		Path: "layouts.*.mig", Values: "exactly one of `instances`, `slots`, `fill`, `dynamic`, `asFound`", Default: "no MIG",
		Doc: "How the GPU is cut.", OneOf: []string{"instances", "slots", "fill", "dynamic", "asFound"},
	},
	{
		Path: "layouts.*.mig.instances", Values: "profile: count, 1 to 64", Doc: "How many instances of which profile; where they start is chosen so that the GPU can still become as much as possible.",
		Keys: "^" + profile + "$", Min: 1, Max: overflow,
	},
	{Path: "layouts.*.mig.slots", Values: "list of PROFILE@START, such as `3g.40gb@4`", Doc: "Exactly these instances at these memory slices.", Pattern: "^" + profile + `@[0-9]+$`},
	{
		Path: "layouts.*.mig.fill", Values: "`1g`, `2g`, ...; a profile; `balanced`; `none`",
		Doc:     "As many as fit on the very GPU: `1g` is the plain profile of one slice that can be had most often, never one with an attribute; `balanced` is 2 x 1g, 2g and 3g on GPUs of seven slices, 2 x 1g and 2g on GPUs of four; `none` is MIG mode without instances.",
		Pattern: "^([1-9][0-9]*g|" + profile + "|balanced|none)$",
	},
	{Path: "layouts.*.mig.dynamic", Values: "`true`", Default: "false", Doc: "Instances are made when claims ask for them; needs `serve: dra`."},
	{
		Path: "layouts.*.mig.profiles", Values: "list of slice counts (`1g`) or profiles", Default: "all that the GPU has",
		Doc: "Which profiles a dynamic layout offers.", Pattern: "^([1-9][0-9]*g|" + profile + ")$",
	},
	{Path: "layouts.*.mig.asFound", Values: "`true`", Default: "false", Doc: "The GPU stays cut as it is."},
	{Path: "layouts.*.mig.resource", Values: "resource name", Default: "one name for each profile", Doc: "One resource name for all instances of the GPU."},
	{Path: "layouts.*.timeSlicing", Values: "mapping", Default: "each device is offered once", Doc: "How often each device of the layout is offered."},
	{Path: "layouts.*.timeSlicing.replicas", Values: "1 to 16384", Doc: "How many containers share one device; 1 is exclusive.", Min: 1, Max: 16384, Required: true},
	{Path: "layouts.*.timeSlicing.profiles", Values: "profile: replicas, `*` for any other", Default: "`replicas`", Doc: "Replicas of the instances of single profiles."},
	{Path: "layouts.*.timeSlicing.rename", Values: "`false`, `true`, a resource name", Default: "false", Doc: "Offer shares under another name: `true` appends `.shared`, a name without a domain gets `nvidia.com/`."},
	{Path: "layouts.*.timeSlicing.policy", Values: "`spread`, `pack`", Default: "spread", Doc: "Which device the next share is taken from: the least used or the most used.", Enum: []string{"spread", "pack"}},
	{Path: "layouts.*.timeSlicing.interval", Values: "`default`, `short`, `medium`, `long`", Default: "default", Doc: "The driver's time slice.", Enum: []string{"default", "short", "medium", "long"}},
	{Path: "layouts.*.timeSlicing.memory", Values: "`unbounded`, `share`", Default: "unbounded", Doc: "Whether a share may use all memory of its device or its part of it, which drivers from 615 on enforce.", Enum: []string{"unbounded", "share"}},
	{Path: "layouts.*.timeSlicing.failRequestsGreaterThanOne", Values: "`true`, `false`", Default: "false", Doc: "Refuse a container that asks for more than one share."},
	{Path: "nodes", Values: "list of rules", Default: "every GPU is unmanaged", Doc: "Which nodes follow which rule; the first whose `match` fits is the node's, a node that none fits is unmanaged."},
	{Path: "nodes[].name", Values: "text", Doc: "A name for messages; no two rules share one."},
	{Path: "nodes[].match", Values: "mapping, not empty", Default: "every node", Doc: "Which nodes the rule is for; all of it must fit."},
	{Path: "nodes[].match.nodeLabels", Values: "label: value", Default: "any", Doc: "Labels of the node; those that follow from a layout are refused here."},
	{Path: "nodes[].match.nodeNames", Values: "list of " + anyGlob, Default: "any", Doc: "Names of nodes."},
	{Path: "nodes[].paused", Values: "`true`, `false`", Default: "false", Doc: "Plan and report on these nodes, apply nothing."},
	{Path: "nodes[].gpus", Values: "list of rules, at least one", Doc: "Which GPUs follow which layout; the first whose `select` fits is the GPU's, a GPU that none fits is unmanaged.", Required: true},
	{Path: "nodes[].gpus[].select", Values: "mapping, not empty", Default: absent, Doc: "Which GPUs the rule is for; all of it must fit."},
	{Path: "nodes[].gpus[].select.index", Values: "numbers and ranges, such as `[0-1, 4]`", Default: absent, Doc: "Places in the order of the PCI bus, as the driver numbers them now: when a GPU is pulled out or lost for good, those behind it move up. Rules that must stay with a GPU name its `uuid`."},
	{Path: "nodes[].gpus[].select.uuid", Values: "list of UUIDs", Default: absent, Doc: "Single boards."},
	{Path: "nodes[].gpus[].select.product", Values: anyGlob, Default: absent, Doc: "Product names, such as `*H100*`."},
	{Path: "nodes[].gpus[].select.memory", Values: "`>=80Gi`; one of `>=` `<=` `>` `<` `=`, and `Mi` or `Gi`", Default: absent, Doc: "Memory as product names count it: a GPU that reports 81559 MiB has 80Gi."},
	{Path: "nodes[].gpus[].select.migCapable", Values: "`true`, `false`", Default: "every GPU", Doc: "GPUs that can be cut, or those that cannot."},
	{Path: "nodes[].gpus[].select.device", Values: "PCI ids, such as `0x233010DE`", Default: absent, Doc: "Models by PCI device and vendor id."},
	{Path: "nodes[].gpus[].layout", Values: "name of a layout", Doc: "The layout that these GPUs follow.", Required: true},
	{Path: "nodes[].gpus[].serve", Values: "`device-plugin`, `dra`, `none`", Default: "device-plugin", Doc: "Through which API the GPUs are offered.", Enum: []string{"device-plugin", "dra", "none"}},
	{Path: "nodes[].gpus[].reset", Values: "`never`, `when-idle`", Default: "never", Doc: "Whether an idle GPU may be reset: where its MIG mode changes with a reset only, and where it is sick and needs one ([health.md](health.md)).", Enum: []string{"never", "when-idle"}},
	{Path: "resourceNames", Values: "list", Default: "`nvidia.com/gpu`", Doc: "Resource names of their own for whole GPUs of a model; the first that fits counts."},
	{Path: "resourceNames[].product", Values: anyGlob, Doc: "Product names.", Required: true},
	{Path: "resourceNames[].name", Values: "resource name, such as `nvidia.com/rtx4090`", Doc: "What these GPUs are called.", Required: true},
	{Path: "health", Values: "mapping", Doc: "What single faults mean."},
	{
		Path: "health.xids", Values: "XID: `ignore`, `application`, `reset`, `reboot`", Default: "the built-in table", Doc: "What the driver's error numbers (XIDs) mean, see [health.md](health.md).",
		Keys: "^[0-9]+$", Enum: []string{"ignore", "application", "reset", "reboot"},
	},
	{Path: "nvidia", Values: "mapping", Default: "NVIDIA's formats and labels are not read", Doc: "ConfigMaps in NVIDIA's formats, for GPUs that no rule of `nodes` is for."},
	{Path: "nvidia.devicePluginConfig", Values: "name of a ConfigMap", Default: "none", Doc: "Configs of NVIDIA's device plugin, chosen by node label `nvidia.com/device-plugin.config`."},
	{Path: "nvidia.migPartedConfig", Values: "name of a ConfigMap, `builtin`", Default: "none", Doc: "Configs of NVIDIA's mig-parted, chosen by node label `nvidia.com/mig.config`; `builtin` are the well-known ones, by the driver's own tables."},
}
