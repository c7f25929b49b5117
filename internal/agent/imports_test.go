// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpuslice/internal/agent"
	"gpuslice/internal/report"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
)

const (
	bothImports = head + "nvidia: {devicePluginConfig: dp, migPartedConfig: mp}\n"
	pluginOnly  = head + "nvidia: {devicePluginConfig: dp}\n"
	migOnly     = head + "nvidia: {migPartedConfig: mp}\n"
	builtIn     = head + "nvidia: {migPartedConfig: builtin}\n"
	migLabel    = "nvidia.com/mig.config"
	pluginLabel = "nvidia.com/device-plugin.config"
)

// plugin and parted say what the ConfigMaps in NVIDIA's formats hold.
func (n *node) plugin(data map[string]string) {
	n.SetImport(agent.DevicePluginConfig, "dp", "configmap ns/dp", data)
}

func (n *node) parted(text string) {
	n.SetImport(agent.MIGPartedConfig, "mp", "configmap ns/mp", map[string]string{"config.yaml": text})
}

func (n *node) choose(key, value string) {
	n.t.Helper()
	if err := n.SetLabels(map[string]string{key: value}); err != nil {
		n.t.Fatal(err)
	}
	n.converge()
}

func share(entry string) map[string]string {
	return map[string]string{"default": "sharing: {timeSlicing: {resources: [" + entry + "]}}"}
}

// Shares go to exactly the devices that a config of the device plugin names, in each of its forms.
func TestSharesByEveryFormOfDevice(t *testing.T) {
	const machine = "gpus:\n- {model: h100-sxm5-80gb}\n- {model: h100-sxm5-80gb}\n- {model: h100-sxm5-80gb, instances: [1g.10gb@0, 1g.10gb@1, 3g.40gb@4]}\n"
	ids := func(n *node) *strings.Replacer {
		gi := ""
		for _, g := range n.machine.GPUs() {
			for _, i := range g.Instances {
				if i.Slot == "1g.10gb@1" {
					gi = fmt.Sprintf("MIG-%s/%d/%d", g.UUID, i.GI, i.CI)
				}
			}
		}
		return strings.NewReplacer("GPU1", n.uuid(1, ""), "MIG1", n.uuid(2, "1g.10gb@1"), "OLD1", gi)
	}
	for _, tc := range []struct{ name, entry, want string }{
		{"all", "{name: gpu, replicas: 4}", "gpu=8 mig-1g.10gb=2 mig-3g.40gb=1"},
		{"all, renamed", "{name: gpu, rename: gpu.small, replicas: 4}", "gpu.small=8 mig-1g.10gb=2 mig-3g.40gb=1"},
		{"the first so many", "{name: gpu, devices: 1, replicas: 4, rename: few}", "few=4 gpu=1 mig-1g.10gb=2 mig-3g.40gb=1"},
		{"index", "{name: gpu, devices: [1], replicas: 4, rename: few}", "few=4 gpu=1 mig-1g.10gb=2 mig-3g.40gb=1"},
		{"UUID", "{name: gpu, devices: [GPU1], replicas: 4, rename: few}", "few=4 gpu=1 mig-1g.10gb=2 mig-3g.40gb=1"},
		{"instances of a profile", "{name: mig-1g.10gb, replicas: 3}", "gpu=2 mig-1g.10gb=6 mig-3g.40gb=1"},
		{"index of an instance", "{name: mig-1g.10gb, devices: ['2:2'], replicas: 3, rename: few}", "few=3 gpu=2 mig-1g.10gb=1 mig-3g.40gb=1"},
		{"UUID of an instance", "{name: mig-1g.10gb, devices: [MIG1], replicas: 3, rename: few}", "few=3 gpu=2 mig-1g.10gb=1 mig-3g.40gb=1"},
		{"an instance by the ids of its GPU", "{name: mig-1g.10gb, devices: [OLD1], replicas: 3, rename: few}", "few=3 gpu=2 mig-1g.10gb=1 mig-3g.40gb=1"},
		{"the first entry that fits counts", "{name: gpu, devices: [0], replicas: 2}, {name: gpu, replicas: 4}", "gpu=6 mig-1g.10gb=2 mig-3g.40gb=1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := newNode(t, machine)
			n.plugin(share(ids(n).Replace(tc.entry)))
			n.apply(pluginOnly)
			n.offers(tc.want)
			n.noProblems()
			if log := n.machine.Log(); len(log) != 0 {
				t.Errorf("how a GPU is offered changed how it is cut: %v", log)
			}
		})
	}
	n := newNode(t, machine)
	n.plugin(share("{name: gpu, devices: [0, 7], replicas: 4}"))
	n.apply(pluginOnly)
	n.problem(agent.ReasonImpossible, "sharing.timeSlicing.resources[0]: nvidia.com/gpu has no device 7; it has 0, 1")
	n.offers("gpu=5 mig-1g.10gb=2 mig-3g.40gb=1")
	n.plugin(share("{name: gpu, devices: 3, replicas: 4}"))
	n.converge()
	n.problem(agent.ReasonImpossible, "3 devices of nvidia.com/gpu are to be shared, the node has 2")
}

// M20: what a strategy does not fit is said; the base resource means one thing, and the others stay usable.
func TestMIGStrategies(t *testing.T) {
	const alike = "gpus:\n- {model: h100-sxm5-80gb, instances: [3g.40gb@0, 3g.40gb@4]}\n- {model: h100-sxm5-80gb, instances: [3g.40gb@4]}\n"
	const differ = "gpus:\n- {model: h100-sxm5-80gb, instances: [1g.10gb@0, 2g.20gb@2]}\n"
	const mixed = "gpus:\n- {model: h100-sxm5-80gb, instances: [3g.40gb@0]}\n- {model: h100-sxm5-80gb}\n"
	const empty = "gpus:\n- {model: h100-sxm5-80gb, mig: true}\n- {model: h100-sxm5-80gb, instances: [3g.40gb@0]}\n"
	for _, tc := range []struct{ name, machine, strategy, want, says string }{
		{"mixed", alike, "mixed", "mig-3g.40gb=3", ""},
		{"no word is mixed", mixed, "", "gpu=1 mig-3g.40gb=1", ""},
		{"single, all alike", alike, "single", "gpu=3", ""},
		{"single, no MIG at all", "2xh100-sxm5-80gb", "single", "gpu=2", ""},
		{"single, profiles differ", differ, "single", "mig-1g.10gb=1 mig-2g.20gb=1", "the instances on this node differ"},
		{"single, one GPU is whole", mixed, "single", "gpu=1 mig-3g.40gb=1", "some GPUs are in MIG mode and some are not"},
		{"single, one GPU has no instance", empty, "single", "gpu=1", "gpu-0: it is in MIG mode and has no instance"},
		{"none, no MIG", "2xh100-sxm5-80gb", "none", "gpu=2", ""},
		{"none, one GPU in MIG mode", mixed, "none", "gpu=1", "gpu-0: withheld"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := newNode(t, tc.machine)
			text := "version: v1"
			if tc.strategy != "" {
				text = "flags: {migStrategy: " + tc.strategy + "}"
			}
			n.plugin(map[string]string{"any": text})
			n.apply(pluginOnly)
			n.offers(tc.want)
			if tc.says == "" {
				n.noProblems()
			} else {
				n.problem(agent.ReasonStrategyMismatch, tc.says)
			}
		})
	}
}

// M20: single speaks of the node, also of GPUs that a rule is for.
func TestSingleBesideAWholeGPU(t *testing.T) {
	n := newNode(t, "gpus:\n- {model: h100-sxm5-80gb, instances: [3g.40gb@0]}\n- {model: h100-sxm5-80gb}\n")
	n.plugin(map[string]string{"any": "flags: {migStrategy: single}"})
	n.apply(pluginOnly + "nodes: [{gpus: [{select: {index: 1}, layout: whole}]}]\n")
	n.offers("gpu=1 mig-3g.40gb=1")
	n.problem(agent.ReasonStrategyMismatch, "gpu-1 is offered whole as nvidia.com/gpu")
}

// P5: a ConfigMap that was emptied, or a config that was, is no wish to share nothing.
func TestEmptiedImport(t *testing.T) {
	for _, data := range []map[string]string{{}, {"default": ""}, {"default": "# nothing\n"}, {"default": "null"}} {
		n := newNode(t, "1xl40s")
		n.plugin(share("{name: gpu, replicas: 4}"))
		n.apply(pluginOnly)
		n.offers("gpu=4")
		n.plugin(data)
		n.converge()
		n.offers("gpu=4")
		n.problem(agent.ReasonImportMissing, "is empty; to share nothing")
		n.plugin(map[string]string{"default": "version: v1"})
		n.converge()
		n.offers("gpu=1")
		n.noProblems()
	}
}

func TestFailRequestsGreaterThanOne(t *testing.T) {
	for _, tc := range []struct{ name, config string }{
		{"imported", pluginOnly},
		{"native", layout("{timeSlicing: {replicas: 4, failRequestsGreaterThanOne: true}}")},
	} {
		n := newNode(t, "2xh100-sxm5-80gb")
		n.plugin(map[string]string{"default": "sharing: {timeSlicing: {failRequestsGreaterThanOne: true, resources: [{name: gpu, replicas: 4}]}}"})
		n.apply(tc.config)
		a, b := n.uuid(0, "")+"::0", n.uuid(1, "")+"::0"
		if _, err := n.Allocate("nvidia.com/gpu", [][]string{{a}, {b}}); err != nil {
			t.Errorf("%s: one share for each of two containers: %v", tc.name, err)
		}
		_, err := n.Allocate("nvidia.com/gpu", [][]string{{a, b}})
		if err == nil || !strings.Contains(err.Error(), "a container asks for 2 shares, at most 1 is allowed") {
			t.Errorf("%s: two shares for a container: %v", tc.name, err)
		}
	}
}

// P5: a config in NVIDIA's formats that does not load changes nothing, also over restarts; nor does one that cannot be read.
func TestBadImportChangesNothing(t *testing.T) {
	n := newNode(t, "1xh100-sxm5-80gb,1xl40s")
	n.plugin(share("{name: gpu, replicas: 4}"))
	n.parted("version: v1\nmig-configs: {mine: [{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2}}]}")
	n.apply(bothImports)
	n.choose(migLabel, "mine")
	const cut, offer = "gpu-0 h100-sxm5-80gb mig=on [3g.40gb@0 3g.40gb@4]\ngpu-1 l40s", "gpu=4 mig-3g.40gb=2"
	same := func(when string) {
		t.Helper()
		if got := n.lists(); got != offer || strings.TrimSpace(n.machine.Dump()) != cut {
			t.Errorf("%s: offered %s, machine\n%s", when, got, n.machine.Dump())
		}
	}
	same("at first")
	n.noProblems()
	n.plugin(map[string]string{"default": "sharing: {timeslicing: {}}"})
	n.parted("version: v1\nmig-configs: {mine: [{devices: all, mig-enabled: true, mig-devices: {7g: 1}}]}")
	n.converge()
	same("after edits that do not load")
	n.problem(agent.ReasonImportInvalid, "configmap ns/dp default:1: sharing.timeslicing: unknown key; did you mean timeSlicing?")
	n.problem(agent.ReasonImportInvalid, "configmap ns/mp config.yaml:2: mig-configs.mine[0].mig-devices.7g: \"7g\" is not a profile name")
	n.start()
	n.converge()
	same("after a restart, before anything was heard")
	n.ImportUnavailable(agent.DevicePluginConfig, "dp", errors.New("configmap ns/dp does not exist"))
	n.ImportUnavailable(agent.MIGPartedConfig, "mp", errors.New("configmap ns/mp does not exist"))
	n.converge()
	same("while they cannot be read")
	n.problem(agent.ReasonImportMissing, "configmap ns/dp does not exist")
	n.machine.Reboot()
	n.start()
	n.converge()
	same("after a reboot")
	n.apply(head)
	n.offers("gpu=1 mig-3g.40gb=2")
	if left, _ := filepath.Glob(filepath.Join(n.dir, "nvidia-*-config")); len(left) != 0 {
		t.Errorf("what nobody names any more is still kept: %v", left)
	}
}

// S04: an edit of the content is followed, not only another name.
func TestImportIsFollowed(t *testing.T) {
	n := newNode(t, "2xh100-sxm5-80gb")
	n.plugin(share("{name: gpu, replicas: 4}"))
	n.apply(pluginOnly)
	n.offers("gpu=8")
	n.plugin(share("{name: gpu, replicas: 8}"))
	n.converge()
	n.offers("gpu=16")
}

// Which key is for a node: the one that its label names, else the one called default, else the only one.
func TestLabelChoosesTheKey(t *testing.T) {
	entry := func(replicas string) string { return share("{name: gpu, replicas: " + replicas + "}")["default"] }
	for _, tc := range []struct {
		name, label string
		data        map[string]string
		want, says  string
	}{
		{"named", "b", map[string]string{"default": entry("2"), "b": entry("3")}, "gpu=3", ""},
		{"default", "", map[string]string{"default": entry("2"), "b": entry("3")}, "gpu=2", ""},
		{"the only one", "", map[string]string{"b": entry("3")}, "gpu=3", ""},
		{"none of several", "", map[string]string{"a": entry("2"), "b": entry("3")}, "gpu=1", ""},
		{"named and missing: what was in force before stays", "c", map[string]string{"default": entry("2"), "b": entry("3")}, "gpu=2", "configmap ns/dp has no key c, which label nvidia.com/device-plugin.config of this node names; it has b, default"},
	} {
		n := newNode(t, "1xl40s")
		n.plugin(tc.data)
		n.apply(pluginOnly)
		n.choose(pluginLabel, tc.label)
		if got := n.lists(); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
		if tc.says != "" {
			n.problem(agent.ReasonImportMissing, tc.says)
		}
	}
}

// M09: a name that nobody knows changes nothing, and what is valid on this very node is said; also over restart and reboot.
func TestUnknownMIGConfig(t *testing.T) {
	n := newNode(t, "2xh100-sxm5-80gb")
	n.apply(builtIn)
	n.choose(migLabel, "all-3g.40gb")
	const cut = "gpu-0 h100-sxm5-80gb mig=on [3g.40gb@0 3g.40gb@4]\ngpu-1 h100-sxm5-80gb mig=on [3g.40gb@0 3g.40gb@4]"
	n.cut(cut)
	n.noProblems()
	const valid = "known are all-1g.10gb, all-1g.10gb.me, all-1g.20gb, all-2g.20gb, all-3g.40gb, all-4g.40gb, all-7g.80gb, all-balanced, all-disabled, all-enabled"
	for _, wrong := range []string{"typo", "all-1g.5gb", "all-3g.41gb"} {
		n.choose(migLabel, wrong)
		n.cut(cut)
		n.problem(agent.ReasonMIGConfigUnknown, "label nvidia.com/mig.config="+wrong+" names no config that is known here; "+valid)
	}
	n.machine.Reboot()
	n.start()
	n.converge()
	n.cut(cut)
	n.offers("mig-3g.40gb=4")
	n.choose(migLabel, "all-disabled")
	n.noProblems()
	n.offers("gpu=2")
}

// A config of a file that some GPU cannot follow is not among the valid ones.
func TestValidConfigsOfAFile(t *testing.T) {
	n := newNode(t, "1xh100-sxm5-80gb")
	n.parted(`{version: v1, mig-configs: {
		good: [{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}],
		other-model: [{device-filter: '0x20B710DE', devices: all, mig-enabled: true, mig-devices: {1g.6gb: 4}}],
		too-much: [{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 8}}],
		parts: [{devices: all, mig-enabled: true, mig-devices: {1c.3g.40gb: 3}}]}}`)
	n.apply(migOnly)
	n.choose(migLabel, "typo")
	n.problem(agent.ReasonMIGConfigUnknown, "known are all-1g.10gb, all-1g.10gb.me, all-1g.20gb, all-2g.20gb, all-3g.40gb, all-4g.40gb, all-7g.80gb, all-balanced, all-disabled, all-enabled, good")
	n.choose(migLabel, "other-model")
	n.problem(agent.ReasonMIGConfigUnknown, "config other-model is for none of the 1 GPUs here")
	n.choose(migLabel, "too-much")
	n.problem(agent.ReasonImpossible, "8 instances of 1g.10gb")
	n.choose(migLabel, "parts")
	n.problem(agent.ReasonImpossible, "migPartedConfig mp parts[0]: \"1c.3g.40gb\": instances of which the compute instance does not fill")
	n.cut("gpu-0 h100-sxm5-80gb mig=off")
	n.offers("gpu=1")
}

// Without `nvidia` in the config the labels of NVIDIA's tools mean nothing: the GPU Operator writes them on every node.
func TestLabelsAloneMeanNothing(t *testing.T) {
	n := newNode(t, "gpus: \n- {model: h100-sxm5-80gb, instances: [3g.40gb@0]}\n")
	n.plugin(share("{name: mig-3g.40gb, replicas: 4}"))
	n.apply(head)
	n.choose(migLabel, "all-disabled")
	n.offers("mig-3g.40gb=1")
	n.noProblems()
	if log := n.machine.Log(); len(log) != 0 {
		t.Errorf("hardware was written to: %v", log)
	}
}

// GPUs that a rule of the SharingConfig is for follow it; NVIDIA's configs have the rest.
func TestNodesComeFirst(t *testing.T) {
	n := newNode(t, "3xh100-sxm5-80gb")
	n.plugin(share("{name: gpu, replicas: 2}, {name: mig-1g.10gb, replicas: 3}"))
	n.parted("version: v1\nmig-configs: {mine: [{devices: [0, 1], mig-enabled: true, mig-devices: {1g.10gb: 1}}]}")
	n.apply(bothImports + "layouts: {it: {mig: {instances: {7g.80gb: 1}}}}\nnodes: [{gpus: [{select: {index: 0}, layout: it}]}]\n")
	n.choose(migLabel, "mine")
	n.cut("gpu-0 h100-sxm5-80gb mig=on [7g.80gb@0]\ngpu-1 h100-sxm5-80gb mig=on [1g.10gb@6]\ngpu-2 h100-sxm5-80gb mig=off")
	n.offers("gpu=2 mig-1g.10gb=3 mig-7g.80gb=1")
	n.noProblems()
	view, _ := n.View()
	rules := []string{}
	for _, target := range view.Targets {
		rules = append(rules, target.Policy.Rule)
	}
	if got, want := strings.Join(rules, "; "), "nodes[0].gpus[0]; migPartedConfig mp mine[0]; devicePluginConfig dp"; got != want {
		t.Errorf("rules are %s, want %s", got, want)
	}
}

// M25: a GPU in MIG mode without instances, before anybody has written a label, is cut when the label comes.
func TestEmptyMIGModeIsNoTrap(t *testing.T) {
	n := newNode(t, "gpus: \n- {model: h100-sxm5-80gb, mig: true}\n")
	n.apply(builtIn)
	n.offers("")
	n.noProblems()
	n.choose(migLabel, "all-balanced")
	n.offers("mig-1g.10gb=2 mig-2g.20gb=1 mig-3g.40gb=1")
	n.choose(migLabel, "all-enabled")
	n.cut("gpu-0 h100-sxm5-80gb mig=on []")
	n.choose(migLabel, "")
	n.cut("gpu-0 h100-sxm5-80gb mig=on []")
	n.choose(migLabel, "all-disabled")
	n.offers("gpu=1")
	n.noProblems()
}

// Filters tell GPUs apart by the ids of the device and of the board, in NVIDIA's format and in ours.
func TestDeviceFilter(t *testing.T) {
	const machine = "gpus: \n- {model: h100-sxm5-80gb}\n- {model: h100-sxm5-80gb, pciSubsystem: 0x16C110DE}\n- {model: h200-sxm5-141gb}\n"
	const want = "gpu-0 h100-sxm5-80gb mig=on [7g.80gb@0]\ngpu-1 h100-sxm5-80gb mig=on [3g.40gb@0 3g.40gb@4]\ngpu-2 h200-sxm5-141gb mig=off"
	n := newNode(t, machine)
	n.parted(`{version: v1, mig-configs: {it: [
		{device-filter: [0x233010DE], devices: all, mig-enabled: true, mig-devices: {7g.80gb: 1}},
		{device-filter: "0x233010DE:0x16C110DE", devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2}}]}}`)
	n.apply(migOnly)
	n.choose(migLabel, "it")
	n.cut(want)
	native := newNode(t, machine)
	native.apply(head + "layouts: {a: {mig: {fill: 7g}}, b: {mig: {fill: 3g}}}\n" +
		"nodes: [{gpus: [{select: {device: '0x233010DE:0x16C110DE'}, layout: b}, {select: {device: [0x233010DE]}, layout: a}]}]\n")
	native.cut(want)
}

// Nothing is decided before the ConfigMaps that the config names were heard of, unless an earlier run knows them.
func TestImportsAreAwaited(t *testing.T) {
	n := newNode(t, "1xl40s")
	if err := n.SetConfig("c", []byte(bothImports)); err != nil {
		t.Fatal(err)
	}
	waits := func(want string) {
		t.Helper()
		if got := n.Waiting(); got != want {
			t.Errorf("waiting: %q, want %q", got, want)
		}
	}
	waits("waiting for configmap dp, mp")
	n.plugin(share("{name: gpu, replicas: 2}"))
	waits("waiting for configmap mp")
	n.ImportUnavailable(agent.MIGPartedConfig, "mp", os.ErrNotExist)
	waits("")
	n.converge()
	n.start()
	waits("waiting for configmap mp") // there is no last good one
	if err := n.SetConfig("c", []byte(pluginOnly)); err != nil {
		t.Fatal(err)
	}
	waits("")
	n.converge()
	n.offers("gpu=2")
	n.apply(builtIn)
	waits("")
}

// M10: whatever stands in the way, the state says so, and it ends in success by itself once that is gone.
func TestMIGConfigIsFollowedToItsEnd(t *testing.T) {
	n := newNode(t, "1xh100-sxm5-80gb")
	n.apply(builtIn)
	state := func(want, reason string) {
		t.Helper()
		view, _ := n.View()
		if got := report.FactsOf(view).MIG; got.State != want || !strings.Contains(got.Reason, reason) {
			t.Errorf("state %q, %q; want %q, %q", got.State, got.Reason, want, reason)
		}
	}
	state("", "")
	n.choose(migLabel, "all-3g.40gb")
	state("success", "")
	n.kubelet.set(nil, holder("mig-3g.40gb", n.uuid(0, "3g.40gb@0"), "trainer"))
	n.choose(migLabel, "all-7g.80gb")
	state("pending", "3g.40gb@0 in use by team-a/trainer/main")
	n.start()
	n.converge()
	state("pending", "in use by team-a/trainer/main")
	release, err := n.machine.Fail(sim.Fault{Call: "CreateGI", Code: devices.ErrUnknown})
	if err != nil {
		t.Fatal(err)
	}
	n.kubelet.set(nil)
	n.converge()
	state("failed", "ApplyFailed gpu-0")
	release()
	n.start() // no back-off to wait for
	n.converge()
	state("success", "")
	n.cut("gpu-0 h100-sxm5-80gb mig=on [7g.80gb@0]")
	n.choose(migLabel, "typo")
	state("failed", "names no config that is known here")
	n.choose(migLabel, "")
	state("", "")
}
