// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package features_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"gpuslice/internal/agent"
	"gpuslice/internal/features"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/mig"
)

// named is a node with a GPU of a product, cut into one instance of a profile.
func named(products []string, profile string) devices.Node {
	n := devices.Node{DriverVersion: "550.163.01"}
	p := mig.Profile{ID: 19, Name: profile, ComputeSlices: 1, MemorySlices: 1, MemoryMiB: 9728, MaxInstances: 7, Engines: mig.Engines{SMs: 14}}
	for i, product := range products {
		g := devices.GPU{
			Index: i, Minor: i, UUID: fmt.Sprintf("GPU-%d", i), PCI: fmt.Sprintf("0000:%02x:00.0", i), Product: product, Model: devices.ModelOf(product),
			MemoryMiB: 81920, ComputeMajor: 8,
		}
		if geometry, err := mig.NewGeometry([]mig.Offer{{Profile: p, Starts: []int{0}}}); err == nil {
			g.Geometry = geometry
		}
		g.MIG = mig.State{
			GPU: g.Name(), Mode: mig.Mode{Current: true, Pending: true},
			Instances: []mig.Instance{{Slot: mig.Slot{Profile: p}, GI: 7, UUID: fmt.Sprintf("MIG-%d", i)}},
		}
		n.GPUs = append(n.GPUs, g)
	}
	return n
}

// legal checks every label as the API server does.
func legal(t *testing.T, why string, labels map[string]string) {
	t.Helper()
	for key, value := range labels {
		for _, fault := range append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...) {
			t.Errorf("%s: %s=%s: %s", why, key, value, fault)
		}
	}
}

// L02, L04: whatever a driver or a firmware calls things, every label is legal, and one that cannot be is left out alone.
func TestOddNames(t *testing.T) {
	long := strings.Repeat("NVIDIA Very Long Name ", 4)[:80]
	for _, tc := range []struct{ why, product, machine, profile, want string }{
		{"a board with a slash", "NVIDIA L4", "X9SRA/X9SRA-3", "1g.6gb", "nvidia.com/gpu.machine=X9SRAX9SRA-3\nnvidia.com/gpu.product=NVIDIA-L4"},
		{"80 characters", long, long, "1g.6gb", `
			nvidia.com/gpu.product=NVIDIA-Very-Long-Name-NVIDIA-Very-Long-Name-NVIDIA-Very-Long-Na
			nvidia.com/gpu.machine=NVIDIA-Very-Long-Name-NVIDIA-Very-Long-Name-NVIDIA-Very-Long-Na
			nvidia.com/mig-1g.6gb.product=NVIDIA-Very-Long-Name-NVIDIA-Very-Long-Name-NVIDIA-V-MIG-1g.6gb
			gpuslice.dev/very-long-name-nvidia-very-long-name-nvidia-very-long-nam.count=1
		`},
		{"cut behind a blank, and between many", "NVIDIA A100   SXM4 " + strings.Repeat("x", 43) + " y", "a  b", "1g.6gb", "nvidia.com/gpu.machine=a--b\nnvidia.com/gpu.product=NVIDIA-A100---SXM4-" + strings.Repeat("x", 43)},
		{"not ASCII", "NVIDIA Tésla™ 雪 4", "サーバー", "1g.6gb", "nvidia.com/gpu.machine=unknown\nnvidia.com/gpu.product=NVIDIA-Tsla--4\ngpuslice.dev/t-sla----4.count=1"},
		{"brackets, as boards have them", "NVIDIA A100 [SXM4] (80GB)", "[To be filled by O.E.M.]", "1g.6gb", "nvidia.com/gpu.machine=To-be-filled-by-O.E.M\nnvidia.com/gpu.product=NVIDIA-A100-SXM4-80GB"},
		{"dashes at the ends", "-NVIDIA L4-", "--", "1g.6gb", "nvidia.com/gpu.product=NVIDIA-L4\nnvidia.com/gpu.machine=unknown"},
		{"no text", "", "", "1g.6gb", "nvidia.com/gpu.product=-\nnvidia.com/mig-1g.6gb.product=-\nnvidia.com/mig-1g.6gb.count=1\nnvidia.com/gpu.machine=unknown\ngpuslice.dev/unknown.count=1"},
		{"blanks", "   ", "   ", "1g.6gb", "nvidia.com/gpu.product=-\nnvidia.com/gpu.machine=unknown\nnvidia.com/gpu.count=1"},
		{"a variant of a profile", "NVIDIA A30", "x", "1g.6gb+me", "nvidia.com/mig-1g.6gb.me.product=NVIDIA-A30-MIG-1g.6gb.me\nnvidia.com/mig-1g.6gb.me.count=1"},
		{"a profile that is no name", "NVIDIA A30", "x", "1g/6 gb", "nvidia.com/gpu.product=NVIDIA-A30\nnvidia.com/mig-1g/6 gb.count=-"},
		{"a profile that is too long", "NVIDIA A30", "x", strings.Repeat("g", 60), "nvidia.com/gpu.product=NVIDIA-A30\nnvidia.com/mig-" + strings.Repeat("g", 60) + ".count=-"},
	} {
		got := labelsOf(view(agent.Config{}, named([]string{tc.product}, tc.profile)), features.Host{Machine: tc.machine})
		legal(t, tc.why, got)
		has(t, tc.why, got, tc.want+"\nnvidia.com/gpu.count=1\ngpuslice.dev/mode=mig\nnvidia.com/mig.strategy=mixed")
	}
}

// Models whose keys are the same once they are legal are counted together: none is lost.
func TestModelsWithOneKey(t *testing.T) {
	long := "NVIDIA " + strings.Repeat("x", 57)
	got := labelsOf(view(agent.Config{}, named([]string{"NVIDIA Z/1", "NVIDIA Z 1", "NVIDIA Z.1", long + "1", long + "2"}, "1g.6gb")), features.Host{})
	legal(t, "one key", got)
	counts := map[string]string{}
	for key, value := range got {
		if strings.HasPrefix(key, "gpuslice.dev/") && strings.HasSuffix(key, ".count") {
			counts[key] = value
		}
	}
	want := map[string]string{"gpuslice.dev/z-1.count": "2", "gpuslice.dev/z.1.count": "1", "gpuslice.dev/" + strings.Repeat("x", 57) + ".count": "2"}
	if !maps.Equal(counts, want) {
		t.Errorf("counts are %v, want %v", counts, want)
	}
}

// L09: keys that selectors can be written with before the first GPU is bought.
func TestShortKeys(t *testing.T) {
	for _, tc := range []struct {
		product       string
		mib           uint64
		model, memory string
	}{
		{"NVIDIA A100-SXM4-80GB", 81920, "a100", "80g"},
		{"NVIDIA A100-SXM4-40GB", 40960, "a100", "40g"},
		{"NVIDIA A100-PCIE-40GB", 40536, "a100", "40g"},
		{"NVIDIA A100 80GB PCIe", 81920, "a100", "80g"},
		{"NVIDIA A30", 24576, "a30", "24g"},
		{"NVIDIA H100 80GB HBM3", 81559, "h100", "80g"},
		{"NVIDIA H100 NVL", 95830, "h100", "94g"},
		{"NVIDIA H200", 143771, "h200", "141g"},
		{"NVIDIA GH200 480GB", 97871, "gh200", "96g"},
		{"NVIDIA B200", 183359, "b200", "180g"},
		{"NVIDIA L40S", 46068, "l40s", "48g"},
		{"NVIDIA L4", 23034, "l4", "24g"},
		{"Tesla T4", 15360, "t4", "16g"},
		{"Tesla V100-SXM2-16GB", 16384, "v100", "16g"},
		{"NVIDIA GeForce RTX 4090", 24564, "rtx-4090", "24g"},
		{"NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887, "rtx-pro-6000", "96g"},
		{"NVIDIA RTX 6000 Ada Generation", 49140, "rtx-6000", "48g"},
		{"NVIDIA X900-SXM9-600GB", 0, "x900", "600g"},
		{"NVIDIA X900-SXM9-600GB", 300 << 10, "x900", "300g"},
		{"NVIDIA X900", 0, "x900", "-"},
		{"80GB", 81920, "80gb", "80g"},
		{"GeForce", 8192, "geforce", "8g"},
	} {
		n := named([]string{tc.product}, "1g.6gb")
		n.GPUs[0].MemoryMiB = tc.mib
		has(t, tc.product, labelsOf(view(agent.Config{}, n), features.Host{}), "gpuslice.dev/gpu.model="+tc.model+"\ngpuslice.dev/gpu.memory-class="+tc.memory)
	}
}

// L02, P3: no name makes a label illegal, and none costs the node the labels that do not carry it.
func FuzzNames(f *testing.F) {
	f.Add("NVIDIA A100-SXM4-80GB", "PowerEdge XE9680", "1g.10gb+me", "550.163.01", uint64(81920))
	f.Add("X9SRA/X9SRA-3", "雪", "1g/6 gb", "x\n", uint64(1))
	f.Add(strings.Repeat("-", 100), "a=b\nc=d", "", "..", uint64(1)<<63)
	f.Add("9999999999999999999gb", "_", strings.Repeat("+", 70), "1.2.3.4", ^uint64(0))
	f.Fuzz(func(t *testing.T, product, machine, profile, version string, mib uint64) {
		n := named([]string{product, "NVIDIA L4", "NVIDIA L4"}, profile)
		n.DriverVersion, n.GPUs[0].MemoryMiB = version, mib
		host := features.Host{Machine: machine, PCI: map[string]features.PCI{n.GPUs[0].PCI: {VGPU: &devices.VGPUMark{Virtual: true, HostVersion: machine, HostBranch: profile}}}}
		got := labelsOf(view(agent.Config{}, n), host)
		legal(t, "fuzz", got)
		if product != "NVIDIA L4" {
			has(t, "fuzz", got, "nvidia.com/gpu.count=2\nnvidia.com/gpu.product=NVIDIA-L4\ngpuslice.dev/gpu.model=l4\nnvidia.com/vgpu.present=true\ngpuslice.dev/mode=mig")
		}
	})
}

// What is not known has no label, and costs no other.
func TestUnknownIsAbsent(t *testing.T) {
	n := named([]string{"NVIDIA A30"}, "1g.6gb")
	n.DriverVersion = ""
	g := &n.GPUs[0]
	g.MemoryMiB, g.ComputeMajor = 0, 0
	g.MIG.Instances[0].Slot.Profile.MemoryMiB, g.MIG.Instances[0].Slot.Profile.Engines = 0, mig.Engines{}
	has(t, "a driver that says little", labelsOf(view(agent.Config{}, n), features.Host{}), `
		nvidia.com/cuda.driver-version.full=-
		nvidia.com/cuda.driver.major=-
		nvidia.com/cuda.runtime.major=-
		nvidia.com/gpu.memory=-
		nvidia.com/gpu.family=-
		nvidia.com/gpu.compute.major=-
		nvidia.com/gpu.mode=-
		nvidia.com/gpu.clique=-
		nvidia.com/vgpu.present=-
		nvidia.com/mig-1g.6gb.memory=-
		nvidia.com/mig-1g.6gb.multiprocessors=-
		nvidia.com/mig-1g.6gb.engines.copy=-
		nvidia.com/mig-1g.6gb.slices.gi=1
		nvidia.com/gpu.product=NVIDIA-A30
		nvidia.com/mig.capable=true
	`)
	g.ComputeMajor, g.ComputeMinor, n.DriverVersion = 11, 0, "470.82"
	has(t, "an architecture without a name and a driver without a revision", labelsOf(view(agent.Config{}, n), features.Host{}), `
		nvidia.com/gpu.family=-
		nvidia.com/gpu.compute.major=11
		nvidia.com/cuda.driver-version.revision=
		nvidia.com/cuda.driver-version.minor=82
	`)
	spark := nodeOf(t, "1xl4")
	spark.GPUs[0].Unified = true
	has(t, "memory that is the host's", labelsOf(view(agent.Config{}, spark), features.Host{}), "nvidia.com/gpu.memory=-\ngpuslice.dev/gpu.memory-class=-\nnvidia.com/gpu.product=NVIDIA-L4")
	first := nodeOf(t, "1xh100-sxm5-80gb")
	first.GPUs[0].ProfilesUnread, first.GPUs[0].Geometry = true, mig.Geometry{}
	has(t, "a first look has not asked for the profiles", labelsOf(view(agent.Config{}, first), features.Host{}), "nvidia.com/mig.capable=true")
}

// GPU Feature Discovery's words for PCI classes, and vGPUs by what the kernel or the driver says.
func TestWhatTheHostSays(t *testing.T) {
	mark := func(virtual bool) *devices.VGPUMark {
		if !virtual {
			return &devices.VGPUMark{}
		}
		return &devices.VGPUMark{Virtual: true, HostVersion: "460.16", HostBranch: "r460_00"}
	}
	type pci = features.PCI
	for _, tc := range []struct {
		why  string
		pci  [2]pci
		virt bool
		want string
	}{
		{"both compute", [2]pci{{compute, mark(false)}, {compute, mark(false)}}, false, "nvidia.com/gpu.mode=compute\nnvidia.com/vgpu.present=false"},
		{"they differ", [2]pci{{compute, nil}, {graphics, nil}}, false, "nvidia.com/gpu.mode=unknown"},
		{"one is not known", [2]pci{{}, {graphics, mark(false)}}, false, "nvidia.com/gpu.mode=graphics\nnvidia.com/vgpu.present=false"},
		{"a class without a word", [2]pci{{0x038000, nil}, {0x038000, nil}}, false, "nvidia.com/gpu.mode=unknown"},
		{"a vGPU", [2]pci{{graphics, mark(true)}, {graphics, mark(false)}}, false, "nvidia.com/vgpu.present=true\nnvidia.com/vgpu.host-driver-version=460.16\nnvidia.com/vgpu.host-driver-branch=r460_00"},
		{"L08: its configuration space cannot be read", [2]pci{{compute, nil}, {compute, nil}}, false, "nvidia.com/gpu.mode=compute\nnvidia.com/vgpu.present=-\nnvidia.com/vgpu.host-driver-version=-\nnvidia.com/gpu.product=NVIDIA-L4"},
		{"the driver says that it is one", [2]pci{{}, {}}, true, "nvidia.com/gpu.mode=-\nnvidia.com/vgpu.present=true\nnvidia.com/vgpu.host-driver-version=-"},
	} {
		n := nodeOf(t, "2xl4")
		n.GPUs[1].Virtual = tc.virt
		h := features.Host{PCI: map[string]features.PCI{n.GPUs[0].PCI: tc.pci[0], n.GPUs[1].PCI: tc.pci[1]}}
		has(t, tc.why, labelsOf(view(agent.Config{}, n), h), tc.want)
	}
}
