// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package features_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuslice/internal/agent"
	"gpuslice/internal/features"
	"gpuslice/pkg/devices"
)

const (
	compute  = 0x030200
	graphics = 0x030000
)

// driver is the versions of every golden. GPU Feature Discovery has each under an old name and a new one; the revision keeps its
// zero.
const driver = "driver: {version: 550.163.01, cuda: \"12.4\"}\n"

const versions = `
	nvidia.com/cuda.driver.major=550
	nvidia.com/cuda.driver.minor=163
	nvidia.com/cuda.driver.rev=01
	nvidia.com/cuda.runtime.major=12
	nvidia.com/cuda.runtime.minor=4
	nvidia.com/cuda.driver-version.major=550
	nvidia.com/cuda.driver-version.minor=163
	nvidia.com/cuda.driver-version.revision=01
	nvidia.com/cuda.driver-version.full=550.163.01
	nvidia.com/cuda.runtime-version.major=12
	nvidia.com/cuda.runtime-version.minor=4
	nvidia.com/cuda.runtime-version.full=12.4
	nvidia.com/gpu.machine=PowerEdge-XE9680
	nvidia.com/gpu.present=true
	gpuslice.dev/health-monitor=events
	nvidia.com/mps.capable=false
	nvidia.com/vgpu.present=false
`

const hopper = `
	nvidia.com/gpu.family=hopper
	nvidia.com/gpu.compute.major=9
	nvidia.com/gpu.compute.minor=0
	nvidia.com/gpu.memory=81559
	gpuslice.dev/gpu.model=h100
	gpuslice.dev/gpu.memory-class=80g
	nvidia.com/mig.capable=true
`

// instance is a profile's labels: what the profiles of the H100 have is in NVIDIA's table of them.
func instance(profile string, count, replicas int, memory, sms, slices, engines int) string {
	text := ""
	for _, l := range []struct {
		name  string
		value any
	}{
		{"count", count},
		{"replicas", replicas},
		{"memory", memory},
		{"multiprocessors", sms},
		{"slices.gi", slices},
		{"slices.ci", slices},
		{"engines.copy", engines},
		{"engines.decoder", engines},
		{"engines.jpeg", engines},
		{"engines.encoder", 0},
		{"engines.ofa", 0},
	} {
		text += fmt.Sprintf("nvidia.com/mig-%s.%s=%v\n", profile, l.name, l.value)
	}
	return text
}

// Every label of a node, typed by hand: which there are is in the tables of NVIDIA's labels, node-wide and for each resource.
func TestAllLabels(t *testing.T) {
	for _, tc := range []struct {
		name    string
		machine string
		config  func(*testing.T) agent.Config
		class   uint32
		want    string
	}{
		{
			"whole: every GPU by itself, replicas 1 and strategy none where nothing is shared", driver + "gpus:\n- {model: h100-sxm5-80gb, count: 8}\n", nil, compute,
			versions + hopper + `
				nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3
				nvidia.com/gpu.count=8
				nvidia.com/gpu.replicas=1
				nvidia.com/gpu.sharing-strategy=none
				nvidia.com/gpu.mode=compute
				nvidia.com/mig.strategy=mixed
				gpuslice.dev/gpu.count.full=8
				gpuslice.dev/gpu.count.mig=0
				gpuslice.dev/h100-sxm5-80gb.count=8
				gpuslice.dev/mode=whole
			`,
		},
		{
			"MIG: GPUs in MIG mode have replicas 0, each profile has its own labels",
			driver + "gpus:\n- {model: h100-sxm5-80gb, instances: [3g.40gb@4, 1g.10gb@0, 1g.10gb@1]}\n- {model: h100-sxm5-80gb, instances: [1g.10gb@6]}\n", nil, compute,
			versions + hopper + instance("1g.10gb", 3, 1, 9984, 16, 1, 1) + instance("3g.40gb", 1, 1, 40448, 60, 3, 3) + `
				nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3
				nvidia.com/gpu.count=2
				nvidia.com/gpu.replicas=0
				nvidia.com/gpu.sharing-strategy=none
				nvidia.com/gpu.mode=compute
				nvidia.com/mig.strategy=mixed
				nvidia.com/mig-1g.10gb.product=NVIDIA-H100-80GB-HBM3-MIG-1g.10gb
				nvidia.com/mig-1g.10gb.sharing-strategy=none
				nvidia.com/mig-3g.40gb.product=NVIDIA-H100-80GB-HBM3-MIG-3g.40gb
				nvidia.com/mig-3g.40gb.sharing-strategy=none
				gpuslice.dev/gpu.count.full=0
				gpuslice.dev/gpu.count.mig=2
				gpuslice.dev/h100-sxm5-80gb.count=2
				gpuslice.dev/mode=mig
			`,
		},
		{
			"shared: the count is of GPUs and not of shares, the product ends in SHARED", driver + "gpus:\n- {model: l40s, count: 2}\n",
			func(t *testing.T) agent.Config { t.Helper(); return sharing(t, "{layout: four}") }, graphics,
			versions + `
				nvidia.com/gpu.product=NVIDIA-L40S-SHARED
				nvidia.com/gpu.count=2
				nvidia.com/gpu.replicas=4
				nvidia.com/gpu.sharing-strategy=time-slicing
				nvidia.com/gpu.family=ada-lovelace
				nvidia.com/gpu.compute.major=8
				nvidia.com/gpu.compute.minor=9
				nvidia.com/gpu.memory=46068
				nvidia.com/gpu.mode=graphics
				nvidia.com/mig.capable=false
				nvidia.com/mig.strategy=mixed
				gpuslice.dev/gpu.model=l40s
				gpuslice.dev/gpu.memory-class=48g
				gpuslice.dev/gpu.count.full=2
				gpuslice.dev/gpu.count.mig=0
				gpuslice.dev/l40s.count=2
				gpuslice.dev/mode=time-slicing
			`,
		},
		{
			"mixed: the model with most GPUs stands for the node, one of its GPUs that is whole for the replicas; shared instances",
			driver + "gpus:\n- {model: l40s, count: 1}\n- {model: h100-sxm5-80gb, count: 2}\n",
			func(t *testing.T) agent.Config {
				t.Helper()
				return sharing(t, "{select: {index: 1}, layout: sharedHalves}")
			}, compute,
			versions + hopper + instance("3g.40gb", 2, 2, 40448, 60, 3, 3) + `
				nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3
				nvidia.com/gpu.count=2
				nvidia.com/gpu.replicas=1
				nvidia.com/gpu.sharing-strategy=none
				nvidia.com/gpu.mode=compute
				nvidia.com/mig.strategy=mixed
				nvidia.com/mig-3g.40gb.product=NVIDIA-H100-80GB-HBM3-MIG-3g.40gb-SHARED
				nvidia.com/mig-3g.40gb.sharing-strategy=time-slicing
				gpuslice.dev/gpu.count.full=2
				gpuslice.dev/gpu.count.mig=1
				gpuslice.dev/h100-sxm5-80gb.count=2
				gpuslice.dev/l40s.count=1
				gpuslice.dev/mode=mixed
			`,
		},
	} {
		c, n := agent.Config{}, nodeOf(t, tc.machine)
		if tc.config != nil {
			c = tc.config(t)
		}
		if diff := cmp.Diff(parse(tc.want), labelsOf(view(c, n), host(n, tc.class))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

// M21: what each count counts when 2 of 8 GPUs are in MIG mode.
func TestWhatIsCounted(t *testing.T) {
	n := nodeOf(t, "8xh100-sxm5-80gb")
	v := view(sharing(t, "{select: {index: [0, 1]}, layout: halves}"), n)
	has(t, "2 of 8 in MIG mode", labelsOf(v, features.Host{}), `
		nvidia.com/gpu.count=8
		gpuslice.dev/gpu.count.full=6
		gpuslice.dev/gpu.count.mig=2
		nvidia.com/mig-3g.40gb.count=4
	`)
}

// The mode is what the config makes of the GPUs, and NVIDIA's labels say how they are shared.
func TestModes(t *testing.T) {
	const inMIG = "gpus:\n- {model: h100-sxm5-80gb, instances: [3g.40gb@4]}\n"
	for _, tc := range []struct {
		why, machine, gpus string
		apis               []agent.API
		want               string
	}{
		{"nobody manages them", "2xl40s", "", nil, "gpuslice.dev/mode=whole"},
		{"found in MIG mode", inMIG, "", nil, "gpuslice.dev/mode=mig"},
		{"cut by the config", "2xh100-sxm5-80gb", "{layout: halves}", nil, "gpuslice.dev/mode=mig"},
		{"to be cut, and the driver lacks the profile: it is left whole", "1xl40s", "{layout: halves}", nil, "gpuslice.dev/mode=whole"},
		{"renamed shares are marked by their resource", "1xl40s", "{layout: renamed}", nil, "gpuslice.dev/mode=time-slicing\nnvidia.com/gpu.product=NVIDIA-L40S\nnvidia.com/gpu.replicas=4"},
		{"one of two is shared", "2xl40s", "{select: {index: 0}, layout: four}", nil, "gpuslice.dev/mode=mixed\nnvidia.com/gpu.replicas=4"},
		{"shared instances are both", "1xh100-sxm5-80gb", "{layout: sharedHalves}", nil, "gpuslice.dev/mode=mixed\nnvidia.com/gpu.replicas=0\nnvidia.com/mig-3g.40gb.replicas=2"},
		{"for claims", "2xh100-sxm5-80gb", "{layout: whole, serve: dra}", nil, "gpuslice.dev/mode=dra"},
		{"for claims, because there is no other API here", "2xl40s", "", []agent.API{agent.DRA}, "gpuslice.dev/mode=dra"},
		{"one for claims", "2xl40s", "{select: {index: 0}, layout: whole, serve: dra}", nil, "gpuslice.dev/mode=mixed"},
		{"withheld", "1xl40s", "{layout: whole, serve: none}", nil, "gpuslice.dev/mode=none\nnvidia.com/gpu.present=true\nnvidia.com/gpu.count=1"},
		{"one withheld, the other offered", "2xl40s", "{select: {index: 0}, layout: whole, serve: none}", nil, "gpuslice.dev/mode=whole"},
	} {
		c := agent.Config{}
		if tc.gpus != "" {
			c = sharing(t, tc.gpus)
		}
		has(t, tc.why, labelsOf(view(c, nodeOf(t, tc.machine), tc.apis...), features.Host{}), tc.want)
	}
}

// NVIDIA's strategies: single gives instances the names of GPUs, and what is not as it wants it is marked.
func TestStrategies(t *testing.T) {
	const gpu = "- {model: h100-sxm5-80gb, instances: "
	const invalid = "nvidia.com/mig.strategy=single\nnvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3-MIG-INVALID\nnvidia.com/gpu.count=0\nnvidia.com/gpu.replicas=0\nnvidia.com/gpu.memory=0\nnvidia.com/gpu.sharing-strategy=\n"
	for _, tc := range []struct{ why, strategy, gpus, want string }{
		{"one profile", "single", gpu + "[1g.10gb@0, 1g.10gb@1]}\n" + gpu + "[1g.10gb@3]}\n", `
			nvidia.com/mig.strategy=single
			nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3-MIG-1g.10gb
			nvidia.com/gpu.count=3
			nvidia.com/gpu.memory=9984
			nvidia.com/gpu.replicas=1
			nvidia.com/gpu.sharing-strategy=none
			nvidia.com/gpu.multiprocessors=16
			nvidia.com/gpu.slices.gi=1
			nvidia.com/gpu.slices.ci=1
			nvidia.com/gpu.engines.copy=1
			nvidia.com/gpu.engines.encoder=0
			nvidia.com/gpu.family=hopper
			nvidia.com/mig-1g.10gb.count=-
			gpuslice.dev/gpu.count.mig=2
			gpuslice.dev/mode=mig
		`},
		{"no GPU in MIG mode", "single", "- {model: h100-sxm5-80gb, count: 2}\n", "nvidia.com/mig.strategy=single\nnvidia.com/gpu.count=2\nnvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3\nnvidia.com/gpu.replicas=1"},
		{"two profiles", "single", gpu + "[1g.10gb@0, 3g.40gb@4]}\n", invalid + "nvidia.com/mig-1g.10gb.count=1"},
		{"one GPU without instances", "single", gpu + "[1g.10gb@0]}\n- {model: h100-sxm5-80gb, mig: true}\n", invalid},
		{"one GPU whole", "single", gpu + "[1g.10gb@0]}\n- {model: h100-sxm5-80gb}\n", invalid},
		{"none", "none", gpu + "[1g.10gb@0]}\n- {model: h100-sxm5-80gb}\n", "nvidia.com/mig.strategy=-\nnvidia.com/mig-1g.10gb.count=-\nnvidia.com/gpu.count=2\nnvidia.com/gpu.replicas=1\ngpuslice.dev/mode=whole"},
	} {
		n := nodeOf(t, "gpus:\n"+tc.gpus)
		has(t, tc.why, labelsOf(view(plugin(t, "flags: {migStrategy: "+tc.strategy+"}\n"), n), features.Host{}), tc.want)
	}
}

// L04: GPUs that are faulty or released are labelled as if they worked, and one view says what another says in whatever order
// the driver counts GPUs and instances.
func TestLabelsAreStable(t *testing.T) {
	n := nodeOf(t, "gpus:\n- {model: h100-sxm5-80gb, count: 3, instances: [3g.40gb@4, 1g.10gb@0, 1g.10gb@1]}\n- {model: a100-sxm4-80gb, count: 3, instances: [1g.10gb@0]}\n- {model: l40s}\n")
	configs := []agent.Config{{}, sharing(t, "{select: {index: 6}, layout: four}"), plugin(t, "flags: {migStrategy: single}\n")}
	for i, c := range configs {
		want := features.Of(view(c, n), host(n, compute))
		for range 100 {
			odd := n
			odd.GPUs = slices.Clone(n.GPUs)
			for g := range odd.GPUs {
				odd.GPUs[g].MIG.Instances = slices.Clone(odd.GPUs[g].MIG.Instances)
				instances := odd.GPUs[g].MIG.Instances
				rand.Shuffle(len(instances), func(a, b int) { instances[a], instances[b] = instances[b], instances[a] })
				switch rand.IntN(4) {
				case 0:
					odd.GPUs[g].Fault = errors.New("lost")
				case 1:
					odd.GPUs[g].Released = "update"
				}
			}
			rand.Shuffle(len(odd.GPUs), func(a, b int) { odd.GPUs[a], odd.GPUs[b] = odd.GPUs[b], odd.GPUs[a] })
			if got := features.Of(view(c, odd), host(n, compute)); got != want {
				t.Fatalf("config %d (-want +got):\n%s", i, cmp.Diff(want, got))
			}
		}
	}
	has(t, "of two models with three GPUs each the first by name stands for the node", labelsOf(view(agent.Config{}, n), features.Host{}), `
		nvidia.com/gpu.product=NVIDIA-A100-SXM4-80GB
		nvidia.com/gpu.count=3
		nvidia.com/mig-1g.10gb.count=9
		nvidia.com/mig-1g.10gb.product=NVIDIA-A100-SXM4-80GB-MIG-1g.10gb
		nvidia.com/mig-3g.40gb.product=NVIDIA-H100-80GB-HBM3-MIG-3g.40gb
		gpuslice.dev/a100-sxm4-80gb.count=3
		gpuslice.dev/h100-sxm5-80gb.count=3
		gpuslice.dev/l40s.count=1
	`)
}

// L04: while a GPU has not said what it is, no label of ours goes and the hardware is as it was; the rest follows.
func TestUnreadGPUsAreNotGone(t *testing.T) {
	before := nodeOf(t, "1xh100-sxm5-80gb,3xl40s")
	ours := labelsOf(view(sharing(t, "{select: {index: 0}, layout: halves}"), before), host(before, compute))
	ours["gpuslice.dev/of-another-version"] = "stays"
	unread := before
	unread.GPUs = slices.Clone(before.GPUs)
	for _, i := range []int{0, 1, 2} {
		unread.GPUs[i] = devices.GPU{PCI: before.GPUs[i].PCI, Minor: before.GPUs[i].Minor, Fault: errors.New("lost")}
	}
	silent := before
	silent.GPUs, silent.Silent = before.GPUs[3:], 3
	for why, n := range map[string]devices.Node{"their addresses are known": unread, "nothing is known of them": silent} {
		want := parse("nvidia.com/gpu.replicas=4\nnvidia.com/gpu.sharing-strategy=time-slicing")
		got := features.Of(view(sharing(t, "{select: {index: 3}, layout: four}"), n), host(before, compute)).Over(ours)
		for key, value := range ours {
			if _, followed := want[key]; !followed {
				want[key] = value
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", why, diff)
		}
	}
	for why, v := range map[string]*agent.View{
		"nothing is known yet": nil, "the driver does not answer": {Unseen: true},
		"no GPU says what it is": view(agent.Config{}, devices.Node{GPUs: unread.GPUs[:2], DriverVersion: "1.2.3"}),
	} {
		if diff := cmp.Diff(ours, features.Of(v, features.Host{}).Over(ours)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", why, diff)
		}
	}
	if got := features.Of(&agent.View{}, features.Host{}).Over(ours); !cmp.Equal(got, parse("gpuslice.dev/mode=none")) {
		t.Errorf("on a node that has no GPU any more there is %v", got)
	}
}

// Every label is in docs/labels.md.
func TestLabelsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/labels.md")
	if err != nil {
		t.Fatal(err)
	}
	n := nodeOf(t, "gpus:\n- {model: h100-sxm5-80gb, instances: [1g.10gb@0]}\n- {model: l40s}\n")
	h := host(n, compute)
	h.PCI[n.GPUs[0].PCI] = features.PCI{VGPU: &devices.VGPUMark{Virtual: true, HostVersion: "460.16", HostBranch: "r460_00"}}
	general := strings.NewReplacer("mig-1g.10gb.", "mig-<profile>.", "h100-sxm5-80gb.", "<model>.", "l40s.", "<model>.")
	for key := range labelsOf(view(agent.Config{}, n), h) {
		if name := general.Replace(key); !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/labels.md does not have %s", name)
		}
	}
}
