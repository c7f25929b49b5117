// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package nvidia_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuslice/internal/config/nvidia"
)

// Each row is configs of NVIDIA's and everything that is printed for them below the kind.
func TestConvert(t *testing.T) {
	const gpu4 = "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 4}]}}"
	const cuts = "version: v1\nmig-configs:\n  a: [{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}]\n" +
		"  b: [{devices: all, mig-enabled: false}, {devices: [0, 1], mig-enabled: true, mig-devices: {1g.10gb: 2, 3g.40gb: 1}}]\n" +
		"  c: [{devices: [0], device-filter: '0x233010DE', mig-enabled: true, mig-devices: {}}]\n"
	for _, tc := range []struct{ name, plugin, parted, selected, want string }{
		{
			"shares of whole GPUs, which leave the cut alone", gpu4, "", "",
			"layouts:\n  as-found:\n    mig: {asFound: true}\n    timeSlicing: {replicas: 4, profiles: {'*': 1}}\nnodes:\n  - gpus:\n      - layout: as-found\n",
		},
		{
			"without MIG it is the same for every device",
			"flags: {migStrategy: none, plugin: {sharedDevicesAllocationPolicy: packed}}\nsharing: {timeSlicing: {renameByDefault: true, failRequestsGreaterThanOne: true, resources: [{name: gpu, replicas: 4}]}}", "", "",
			"layouts:\n  as-found:\n    mig: {asFound: true}\n    timeSlicing: {replicas: 4, profiles: {'*': 1}, rename: true, policy: pack, failRequestsGreaterThanOne: true}\nnodes:\n  - gpus:\n      - layout: as-found\n",
		},
		{
			"some GPUs", "sharing: {timeSlicing: {resources: [{name: gpu, rename: gpu.small, devices: [0, GPU-11111111-2222-3333-4444-555555555555], replicas: 4}]}}\nflags: {migStrategy: none}", "", "",
			"layouts:\n  as-found:\n    mig: {asFound: true}\n    timeSlicing: {replicas: 4, profiles: {'*': 1}, rename: gpu.small}\n  as-found.2:\n    mig: {asFound: true}\nnodes:\n  - gpus:\n" +
				"      - select: {index: [0]}\n        layout: as-found\n      - select: {uuid: [GPU-11111111-2222-3333-4444-555555555555]}\n        layout: as-found\n      - layout: as-found.2\n",
		},
		{
			"a cut", "", cuts, "a",
			"layouts:\n  a:\n    mig: {instances: {1g.10gb: 7}}\nnodes:\n  - name: a\n    gpus:\n      - select: {migCapable: true}\n        layout: a\n        reset: when-idle\n",
		},
		{
			"the last entry that fits there is the first here", "", cuts, "b",
			"layouts:\n  b-1:\n    mig: {instances: {1g.10gb: 2, 3g.40gb: 1}}\nnodes:\n  - name: b\n    gpus:\n" +
				"      - select: {index: [0, 1]}\n        layout: b-1\n        reset: when-idle\n      - layout: whole\n        reset: when-idle\n",
		},
		{
			"a filter, and MIG mode without instances", "", cuts, "c",
			"layouts:\n  c:\n    mig: {fill: none}\nnodes:\n  - name: c\n    gpus:\n      - select: {index: [0], device: [\"0x233010DE\"]}\n        layout: c\n        reset: when-idle\n",
		},
		{
			"shares of one profile, and of whole GPUs where there are some", "sharing: {timeSlicing: {resources: [{name: mig-1g.10gb, replicas: 3}, {name: gpu, replicas: 2}]}}", cuts, "b",
			"layouts:\n  b-0:\n    timeSlicing: {replicas: 2}\n  b-1:\n    mig: {instances: {1g.10gb: 2, 3g.40gb: 1}}\n    timeSlicing: {replicas: 1, profiles: {1g.10gb: 3}}\nnodes:\n  - name: b\n    gpus:\n" +
				"      - select: {index: [0, 1]}\n        layout: b-1\n        reset: when-idle\n      - layout: b-0\n        reset: when-idle\n",
		},
		{
			"single", "flags: {migStrategy: single}\n" + gpu4, cuts, "a",
			"layouts:\n  a:\n    mig: {instances: {1g.10gb: 7}, resource: nvidia.com/gpu}\n    timeSlicing: {replicas: 4}\n  rest:\n    timeSlicing: {replicas: 4}\nnodes:\n  - name: a\n    gpus:\n      - select: {migCapable: true}\n        layout: a\n        reset: when-idle\n      - layout: rest\n",
		},
		{
			"a well-known name that the file lacks", "", cuts, "all-1g.24gb.me.all",
			"layouts:\n  all-1g.24gb.me.all:\n    mig: {fill: 1g.24gb+me.all}\nnodes:\n  - name: all-1g.24gb.me.all\n    gpus:\n      - select: {migCapable: true}\n        layout: all-1g.24gb.me.all\n        reset: when-idle\n",
		},
		{"off", "", "builtin", "all-disabled", "nodes:\n  - name: all-disabled\n    gpus:\n      - layout: whole\n        reset: when-idle\n"},
	} {
		c, _, err := nvidia.Convert(input(tc.plugin, tc.parted, tc.selected))
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		text, err := c.YAML()
		if diff := cmp.Diff("apiVersion: gpuslice.dev/v1alpha1\nkind: SharingConfig\n"+tc.want, string(text)); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got)\n%s", tc.name, err, diff)
		}
	}
}

func input(plugin, parted, selected string) nvidia.Input {
	in := nvidia.Input{Selected: selected}
	if plugin != "" {
		in.DevicePluginFile, in.DevicePlugin = "p.yaml", []byte(plugin)
	}
	if parted == "builtin" {
		in.MIGPartedFile = parted
	} else if parted != "" {
		in.MIGPartedFile, in.MIGParted = "m.yaml", []byte(parted)
	}
	return in
}

// What a SharingConfig cannot say is named with its line; it is never left out.
func TestConvertRefuses(t *testing.T) {
	const cuts = "version: v1\nmig-configs:\n  a:\n  - {devices: all, mig-enabled: true, mig-devices: {1g.10gb: 2, 3g.40gb: 1}}\n  b:\n  - {devices: all, mig-enabled: true, mig-devices: {1c.3g.40gb: 3}}\n"
	const single = "shares of single instances cannot be said in a SharingConfig"
	for _, tc := range []struct{ name, plugin, parted, selected, want string }{
		{"an instance by index", "sharing:\n  timeSlicing:\n    resources:\n    - name: mig-1g.10gb\n      devices: ['0:1']\n      replicas: 2\n", "", "", "p.yaml:5: sharing.timeSlicing.resources[0].devices: " + single},
		{"a number of instances", "sharing: {timeSlicing: {resources: [{name: mig-1g.10gb, devices: 2, replicas: 2}]}}", "", "", "p.yaml:1: sharing.timeSlicing.resources[0].devices: " + single},
		{"an instance called a GPU", "flags: {migStrategy: single}\nsharing: {timeSlicing: {resources: [{name: gpu, devices: ['0:1'], replicas: 2}]}}", "", "", "p.yaml:2: sharing.timeSlicing.resources[0].devices: 0:1: " + single},
		{"two ways to rename in one layout", "sharing: {timeSlicing: {resources: [{name: mig-1g.10gb, rename: a, replicas: 2}, {name: mig-3g.40gb, rename: b, replicas: 2}]}}", cuts, "a", "p.yaml:1: sharing.timeSlicing.resources[1].rename: nvidia.com/mig-3g.40gb is offered under another kind of name"},
		{"none and MIG", "flags: {migStrategy: none}", cuts, "a", "p.yaml:1: flags.migStrategy: none withholds GPUs in MIG mode"},
		{"single and two profiles", "flags: {migStrategy: single}", cuts, "a", "p.yaml:1: flags.migStrategy: single needs instances of one profile"},
		{"compute instances smaller than their GPU instance", "", cuts, "b", "m.yaml: mig-configs.b[0].mig-devices: \"1c.3g.40gb\": instances of which"},
		{"no such name", "", cuts, "all-balancd", `m.yaml: mig-configs: "all-balancd" is not one of a, b, all-disabled, all-enabled, all-balanced; did you mean all-balanced?`},
		{"no name", "", cuts, "", "--selected says which config is meant; there are a, b"},
		{"a mistake", "flags: {migStrategy: 1}", "", "", "p.yaml:1: flags.migStrategy: "},
	} {
		_, _, err := nvidia.Convert(input(tc.plugin, tc.parted, tc.selected))
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s:\n%v, want\n%s", tc.name, err, tc.want)
		}
	}
}
