// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package config_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuslice/internal/config"
)

const head = "apiVersion: gpuslice.dev/v1alpha1\nkind: SharingConfig\n"

// The example of the design, word for word in structure: it must load.
const example = head + `
layouts:
  inference:   {mig: {instances: {3g.40gb: 1, 1g.10gb: 3}}}
  exact:       {mig: {slots: [4g.40gb@0, 3g.40gb@4]}}
  small:       {mig: {fill: 1g}}
  notebooks:   {timeSlicing: {replicas: 4, rename: true, policy: spread, memory: share}}
  small-x2:    {mig: {fill: 1g}, timeSlicing: {replicas: 2}}
  elastic:     {mig: {dynamic: true, profiles: [1g, 2g, 3g]}}
nodes:
- name: inference
  match: {nodeLabels: {pool: inference}}
  gpus:
  - {select: {index: [0-1]}, layout: inference}
  - {select: {product: "*H100*"}, layout: elastic, serve: dra}
- gpus: [{layout: whole}]
resourceNames: [{product: "*RTX 4090*", name: nvidia.com/rtx4090}]
health: {xids: {"109": ignore}}
nvidia: {devicePluginConfig: time-slicing-config, migPartedConfig: custom-mig}
`

func TestExampleLoads(t *testing.T) {
	c, err := config.Load("config.yaml", []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	if c.Layouts["notebooks"].TimeSlicing.Rename != (config.Rename{Suffix: true}) || c.Layouts["inference"].MIG.Instances["1g.10gb"] != 3 {
		t.Errorf("read as %+v", c.Layouts)
	}
	rule, ok := c.ForNode("n1", map[string]string{"pool": "inference"})
	if !ok {
		t.Fatal("no rule for the node")
	}
	for _, tc := range []struct {
		facts config.Facts
		want  string
	}{
		{config.Facts{Index: 0, Product: "NVIDIA H100 80GB HBM3"}, "inference device-plugin never nodes[0].gpus[0]"},
		{config.Facts{Index: 2, Product: "NVIDIA H100 80GB HBM3"}, "elastic dra never nodes[0].gpus[1]"},
		{config.Facts{Index: 2, Product: "NVIDIA L40S"}, "   "},
	} {
		p := rule.ForGPU(tc.facts)
		if got := strings.Join([]string{p.LayoutName, p.Serve, p.Reset, p.Rule}, " "); got != tc.want {
			t.Errorf("%+v: %s, want %s", tc.facts, got, tc.want)
		}
	}
	if rule, ok = c.ForNode("n2", nil); !ok || rule.Index != 1 {
		t.Errorf("a node without the label gets rule %d, %v", rule.Index, ok)
	}
}

// What is written is read back as it was.
func TestYAML(t *testing.T) {
	const more = `
layouts:
  found: {mig: {asFound: true, resource: gpu}, timeSlicing: {replicas: 1, profiles: {1g.10gb: 2, "*": 3}, rename: small, failRequestsGreaterThanOne: true}}
  none:  {mig: {fill: none}}
nodes:
- match: {nodeNames: a}
  gpus: [{select: {device: "0x233010DE:0x16C110DE", index: [0, 2-3], uuid: GPU-1, memory: ">=80Gi"}, layout: found, reset: when-idle}]
  paused: true
`
	for _, text := range []string{example, head + more} {
		c, err := config.Load("f", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		written, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		back, err := config.Load("written", written)
		if diff := cmp.Diff(c, back); err != nil || diff != "" {
			t.Errorf("%v\n%s\n%s", err, diff, written)
		}
	}
}

func TestNothingIsNoConfig(t *testing.T) {
	for _, text := range []string{"", "\n", "# nothing yet\n", "---\n"} {
		c, err := config.Load("f", []byte(text))
		if err != nil || len(c.Nodes) != 0 {
			t.Errorf("%q: %+v, %v; want every GPU unmanaged", text, c, err)
		}
	}
}

// Each row is one mistake; the message must say where, what, and what would be right (P5, S01).
func TestMistakes(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       []string // "line field: part of the message"
	}{
		{"misspelt key", head + "layuots: {}\n", []string{"3 layuots: did you mean layouts?"}},
		{"key in the wrong place", head + "replicas: 4\n", []string{"3 replicas: it belongs to layouts.*.timeSlicing.replicas"}},
		{"unknown key", head + "flags: {}\n", []string{"3 flags: valid keys are apiVersion, kind"}},
		{
			"all at once", head + "layouts:\n  a: {mig: {fill: 9}}\n  b: {timeSlicing: {replicas: 0, polcy: pack}}\n",
			[]string{"4 layouts.a.mig.fill: \"9\" is not a slice count", "5 layouts.b.timeSlicing.polcy: did you mean policy?", "5 layouts.b.timeSlicing.replicas: 0 is not between 1"},
		},
		{"two ways to cut", head + "layouts:\n  a:\n    mig:\n      fill: 1g\n      dynamic: true\n", []string{"6 layouts.a.mig: 2 ways to cut are set"}},
		{"no way to cut", head + "layouts: {a: {mig: {}}}\n", []string{"3 layouts.a.mig: 0 ways"}},
		{"not a number", head + "layouts: {a: {timeSlicing: {replicas: four}}}\n", []string{"3 layouts.a.timeSlicing.replicas: is not a number"}},
		{"not a mapping", head + "layouts: [a]\n", []string{"3 layouts: is not a mapping"}},
		{"profile that cannot be", head + "layouts: {a: {mig: {instances: {3g40gb: 1}}}}\n", []string{"3 layouts.a.mig.instances.3g40gb: not a profile name such as 3g.40gb"}},
		{"slot without start", head + "layouts: {a: {mig: {slots: [3g.40gb]}}}\n", []string{"3 layouts.a.mig.slots[0]: PROFILE@START"}},
		{"layout that is not there", head + "nodes: [{gpus: [{layout: infrence}]}]\nlayouts: {inference: {}}\n", []string{"3 nodes[0].gpus[0].layout: did you mean inference?"}},
		{"built-in layout redefined", head + "layouts: {whole: {}}\n", []string{"3 layouts.whole: built in"}},
		{"rule without GPUs", head + "nodes: [{name: a}]\n", []string{"3 nodes[0].gpus: at least one entry"}},
		{"serve", head + "nodes: [{gpus: [{layout: whole, serve: plugin}]}]\n", []string{"3 nodes[0].gpus[0].serve: device-plugin, dra, none"}},
		{"dynamic needs dra", head + "nodes: [{gpus: [{layout: dynamic}]}]\n", []string{"3 nodes[0].gpus[0].serve: by dra only"}},
		{"labels that follow from the layout", head + "nodes: [{match: {nodeLabels: {nvidia.com/gpu.product: x}}, gpus: [{layout: whole}]}]\n", []string{"3 nodes[0].match.nodeLabels.nvidia.com/gpu.product: cannot select it"}},
		{"index", head + "nodes: [{gpus: [{select: {index: [3-1]}, layout: whole}]}]\n", []string{"3 nodes[0].gpus[0].select.index[0]: range such as 0-3"}},
		{"memory", head + "nodes: [{gpus: [{select: {memory: 80Gi}, layout: whole}]}]\n", []string{"3 nodes[0].gpus[0].select.memory: such as >=80Gi"}},
		{"pattern", head + "nodes: [{gpus: [{select: {product: '[a'}, layout: whole}]}]\n", []string{"3 nodes[0].gpus[0].select.product: needs its ]"}},
		{"resource name", head + "resourceNames: [{product: '*', name: h100}]\n", []string{"3 resourceNames[0].name: such as nvidia.com/h100"}},
		{"xid", head + "health: {xids: {x: ignore, '1': skip}}\n", []string{"3 health.xids.1: ignore, application, reset, reboot", "3 health.xids.x: not an XID"}},
		{"PCI device", head + "nodes: [{gpus: [{select: {device: [0x2330]}, layout: whole}]}]\n", []string{"3 nodes[0].gpus[0].select.device[0]: \"0x2330\" is not a PCI device such as 0x233010DE"}},
		{"two ways to cut, one of them to leave as found", head + "layouts: {a: {mig: {asFound: true, fill: none}}}\n", []string{"3 layouts.a.mig: 2 ways to cut are set, want exactly one of instances, slots, fill, dynamic, asFound"}},
		{"resource of instances", head + "layouts: {a: {mig: {fill: 1g, resource: kubernetes.io/gpu}}}\n", []string{"3 layouts.a.mig.resource: kubernetes.io is reserved"}},
		{"replicas of profiles", head + "layouts: {a: {mig: {fill: 1g}, timeSlicing: {replicas: 1, profiles: {1g: 2, 1g.10gb: 0, '*': 3}}}}\n", []string{
			"3 layouts.a.timeSlicing.profiles.1g: \"1g\" is not a profile name", "3 layouts.a.timeSlicing.profiles.1g.10gb: 0 is not between 1 and 16384",
		}},
		{"profiles without MIG", head + "layouts: {a: {timeSlicing: {replicas: 2, profiles: {1g.10gb: 2}}}}\n", []string{"3 layouts.a.timeSlicing.profiles: this layout has no mig"}},
		{"renamed and nowhere shared", head + "layouts: {a: {mig: {fill: 1g}, timeSlicing: {replicas: 1, rename: true, profiles: {1g.10gb: 1}}}}\n", []string{"3 layouts.a.timeSlicing.rename: one replica is exclusive use"}},
		{"ConfigMap", head + "nvidia: {devicePluginConfig: Time Slicing}\n", []string{"3 nvidia.devicePluginConfig: \"Time Slicing\" is not the name of a ConfigMap"}},
		{"same name twice", head + "nodes:\n- {name: a, gpus: [{layout: whole}]}\n- {name: a, gpus: [{layout: whole}]}\n", []string{"5 nodes[1].name: nodes[0] already"}},
		{"other version", "apiVersion: v1\nkind: SharingConfig\n", []string{"1 apiVersion: gpuslice.dev/v1alpha1"}},
		{"alias", head + "layouts: {a: &x {mig: {fill: 1g}}, b: *x}\n", []string{"3 layouts.b: aliases"}},
		{"duplicate key", head + "layouts: {a: {}, a: {}}\n", []string{"3 layouts.a: already defined on line 3"}},
		{"two documents", head + "---\nkind: x\n", []string{"3 : second YAML document"}},
		{"no YAML", "a: [", []string{"1 : "}},
		{"a list", "- a\n", []string{"1 : want a mapping"}},
	} {
		checkIssues(t, tc.name, tc.text, tc.want)
	}
}

// checkIssues wants exactly these issues, each as "line field: part of the message".
func checkIssues(t *testing.T, name, text string, want []string) {
	t.Helper()
	_, err := config.Load("c.yaml", []byte(text))
	var issues config.Issues
	if !errors.As(err, &issues) {
		t.Errorf("%s: %v, want issues", name, err)
		return
	}
	if len(issues) != len(want) {
		t.Errorf("%s: got\n%v\nwant %d issues", name, issues, len(want))
		return
	}
	for i, w := range want {
		at, part, _ := strings.Cut(w, ": ")
		line, field, _ := strings.Cut(at, " ")
		got := issues[i].Error()
		if !strings.HasPrefix(got, "c.yaml:"+line+": ") || issues[i].Field != field && field != "" || !strings.Contains(got, part) {
			t.Errorf("%s: got %q, want line %s, field %s, %q", name, got, line, field, part)
		}
	}
}

func TestSelect(t *testing.T) {
	const h100, a100 = 81559, 40960
	for _, tc := range []struct {
		name, sel string
		facts     config.Facts
		fits      bool
	}{
		{"one index", "{index: 1}", config.Facts{Index: 1}, true},
		{"outside a range", "{index: [0-1, 4]}", config.Facts{Index: 3}, false},
		{"last of a list", "{index: [0-1, 4]}", config.Facts{Index: 4}, true},
		{"uuid", "{uuid: [GPU-1]}", config.Facts{UUID: "GPU-1"}, true},
		{"other uuid", "{uuid: GPU-1}", config.Facts{UUID: "GPU-2"}, false},
		{"product", "{product: '*H100*'}", config.Facts{Product: "NVIDIA H100 PCIe"}, true},
		{"an H100 reports 81559 MiB and is one of 80 GiB", "{memory: '>=80Gi'}", config.Facts{MemoryMiB: h100}, true},
		{"an A100-40GB is smaller", "{memory: '>=80Gi'}", config.Facts{MemoryMiB: a100}, false},
		{"exact MiB", "{memory: '<81560Mi'}", config.Facts{MemoryMiB: h100}, true},
		{"unknown memory fits no condition", "{memory: '>=1Gi'}", config.Facts{}, false},
		{"all conditions must fit", "{index: 0, product: '*L40S*'}", config.Facts{Product: "NVIDIA H100"}, false},
	} {
		c, err := config.Load("f", []byte(head+"nodes: [{gpus: [{select: "+tc.sel+", layout: whole}]}]\n"))
		if err != nil {
			t.Fatal(tc.name, err)
		}
		rule, _ := c.ForNode("n", nil)
		if got := rule.ForGPU(tc.facts).Managed; got != tc.fits {
			t.Errorf("%s: fits=%v, want %v", tc.name, got, tc.fits)
		}
	}
}

func TestNodeNames(t *testing.T) {
	c, err := config.Load("f", []byte(head+"nodes: [{match: {nodeNames: [gpu-*]}, gpus: [{layout: whole}]}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, name := range []string{"gpu-1", "cpu-1"} {
		_, got[name] = c.ForNode(name, nil)
	}
	if diff := cmp.Diff(map[string]bool{"gpu-1": true, "cpu-1": false}, got); diff != "" {
		t.Error(diff)
	}
}

// A megabyte of mistakes is answered with a page of them, at once.
func TestManyMistakes(t *testing.T) {
	for name, line := range map[string]string{"unknown keys": "k%d: 1\n", "wrong types": "  a%d: [1]\n"} {
		text := []byte(head + "layouts:\n")
		if name == "unknown keys" {
			text = []byte(head)
		}
		for i := 0; len(text) < config.MaxBytes-32; i++ {
			text = fmt.Appendf(text, line, i)
		}
		_, err := config.Load("f", text)
		var issues config.Issues
		if !errors.As(err, &issues) || len(issues) < 1 || len(issues) > 100 {
			t.Errorf("%s: %d issues, want up to 100", name, len(issues))
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(example))
	f.Add([]byte("a: &b [*b]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, err := config.Load("f", text)
		var issues config.Issues
		if err != nil && !errors.As(err, &issues) {
			t.Errorf("%v is not a list of issues", err)
		}
	})
}
