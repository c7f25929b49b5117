// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package drivertest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"gpuslice/test/simdriver/driverroot"
)

// raw is what go-nvml reads that this project's adapter does not pass on.
type raw struct {
	PCI        []nvml.PciInfo
	Memory     []nvml.Memory
	MemoryV2   []nvml.Memory_v2
	Attributes []nvml.DeviceAttributes // of the MIG devices of the first GPU
	Owners     []string                // UUIDs that the compute instances of the first GPU tell as their device
	Names      map[int]string          // by enum, of the second GPU
	Graphics   []int                   // enums of graphics profiles of the second GPU
	Codes      map[string]string       // answers other than success
}

// printRaw reads with go-nvml alone. The first GPU is cut, the second cannot be held against it.
func printRaw(root string) error {
	lib := nvml.New(nvml.WithLibraryPath(driverroot.Under(root).NVML()))
	if ret := lib.Init(); ret != nvml.SUCCESS {
		return fmt.Errorf("init: %w", ret)
	}
	out := raw{Names: map[int]string{}, Codes: map[string]string{}}
	note := func(what string, ret nvml.Return) {
		if ret != nvml.SUCCESS {
			out.Codes[what] = ret.Error()
		}
	}
	var gpus [2]nvml.Device
	for i := range gpus {
		var ret nvml.Return
		gpus[i], ret = lib.DeviceGetHandleByIndex(i)
		note("handle", ret)
		pci, ret := gpus[i].GetPciInfo()
		note("PCI", ret)
		memory, ret := gpus[i].GetMemoryInfo()
		note("memory", ret)
		v2, ret := gpus[i].GetMemoryInfo_v2()
		note("memory v2", ret)
		out.PCI, out.Memory, out.MemoryV2 = append(out.PCI, pci), append(out.Memory, memory), append(out.MemoryV2, v2)
	}
	out.readMIG(gpus[0], note)
	out.readProfiles(gpus[1])
	note("persistence", gpus[1].SetPersistenceMode(nvml.FEATURE_ENABLED))
	mode, ret := gpus[1].GetPersistenceMode()
	note("persistence read back", ret)
	if mode != nvml.FEATURE_ENABLED {
		note("persistence is off", nvml.ERROR_UNKNOWN)
	}
	_, ret = gpus[0].GetAttributes()
	note("attributes of a GPU", ret)
	_, ret = gpus[0].GetGpuInstanceById(14)
	note("no such instance", ret)
	_, ret = gpus[0].GetUtilizationRates()
	note("what nobody implements", ret)
	note("shutdown", lib.Shutdown())
	return json.NewEncoder(os.Stdout).Encode(out)
}

func (out *raw) readMIG(gpu nvml.Device, note func(string, nvml.Return)) {
	for i := range 3 {
		mig, ret := gpu.GetMigDeviceHandleByIndex(i)
		note("MIG device", ret)
		attributes, ret := mig.GetAttributes()
		note("attributes", ret)
		out.Attributes = append(out.Attributes, attributes)
		gi, ret := mig.GetGpuInstanceId()
		note("GI id", ret)
		ci, ret := mig.GetComputeInstanceId()
		note("CI id", ret)
		instance, ret := gpu.GetGpuInstanceById(gi)
		note("GI", ret)
		compute, ret := instance.GetComputeInstanceById(ci)
		note("CI", ret)
		info, ret := compute.GetInfo()
		note("CI info", ret)
		uuid, ret := info.Device.GetUUID()
		note("UUID of CI", ret)
		out.Owners = append(out.Owners, uuid)
	}
}

func (out *raw) readProfiles(gpu nvml.Device) {
	for enum := range nvml.GPU_INSTANCE_PROFILE_COUNT {
		v2, ret := gpu.GetGpuInstanceProfileInfoV(enum).V2()
		v3, retV3 := gpu.GetGpuInstanceProfileInfoV(enum).V3()
		if ret != nvml.SUCCESS || retV3 != nvml.SUCCESS {
			continue
		}
		out.Names[enum] = text(v2.Name)
		if text(v3.Name) != text(v2.Name) {
			out.Names[enum] += " is " + text(v3.Name)
		}
		if v3.Capabilities&nvml.GPU_INSTANCE_PROFILE_CAPS_GFX != 0 {
			out.Graphics = append(out.Graphics, enum)
		}
	}
}

// text reads a C string, whose char is signed on some platforms.
func text[C int8 | uint8](name [96]C) string {
	var b strings.Builder
	for _, c := range name {
		if c != 0 {
			b.WriteByte(byte(c))
		}
	}
	return b.String()
}

// The numbers are NVIDIA's: profiles of H100 SXM and RTX PRO 6000, their memory, their PCI ids.
func TestGoNVMLReadsEveryStructure(t *testing.T) {
	n := startNode(t, `gpus:
- {model: h100-sxm5-80gb, pci: "00000000:65:00.0", pciSubsystem: 0x16C110DE, instances: [3g.40gb@4, "2g.20gb@0{1c 1c}"]}
- {model: rtx-pro-6000-blackwell-se-96gb, pci: "00020000:C8:00.0"}`)
	n.control("start-process", "0", "4711", "slot=3g.40gb@4", "mib=100")
	var got raw
	check(t, json.Unmarshal(must[[]byte](t)(again(t, "raw", n.paths.Root).Output()), &got))

	if p := got.PCI[0]; p.Domain != 0 || p.Bus != 0x65 || p.PciDeviceId != 0x233010DE || p.PciSubSystemId != 0x16C110DE {
		t.Errorf("PCI info is %+v", p)
	}
	if p := got.PCI[1]; p.Domain != 0x20000 || p.Bus != 0xC8 || p.PciDeviceId != n.gpu(1).PCIDeviceID {
		t.Errorf("PCI info is %+v", p)
	}
	const total, used = 81559 << 20, 100 << 20
	if got.Memory[0] != (nvml.Memory{Total: total, Used: used, Free: total - used}) {
		t.Errorf("memory is %+v", got.Memory[0])
	}
	if m := got.MemoryV2[0]; m.Total != total || m.Used != used || m.Reserved == 0 || m.Free != total-used-m.Reserved {
		t.Errorf("memory is %+v", m)
	}
	slices := []nvml.DeviceAttributes{
		{MultiprocessorCount: 60, SharedCopyEngineCount: 3, SharedDecoderCount: 3, SharedJpegCount: 3, GpuInstanceSliceCount: 3, ComputeInstanceSliceCount: 3, MemorySizeMB: 40448},
		{MultiprocessorCount: 16, SharedCopyEngineCount: 2, SharedDecoderCount: 2, SharedJpegCount: 2, GpuInstanceSliceCount: 2, ComputeInstanceSliceCount: 1, MemorySizeMB: 20096},
	}
	if diff := cmp.Diff([]nvml.DeviceAttributes{slices[0], slices[1], slices[1]}, got.Attributes); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	var uuids []string
	for _, i := range n.gpu(0).Instances {
		uuids = append(uuids, i.UUID)
	}
	if diff := cmp.Diff(uuids, got.Owners); diff != "" {
		t.Errorf("devices of compute instances (-want +got):\n%s", diff)
	}
	if got.Names[0] != "MIG 1g.24gb" || got.Names[10] != "MIG 1g.24gb+gfx" || !cmp.Equal(got.Graphics, []int{10, 11, 12}) {
		t.Errorf("names are %v, graphics profiles %v", got.Names, got.Graphics)
	}
	want := map[string]string{
		"attributes of a GPU": "Invalid Argument", "no such instance": "Not Found", "what nobody implements": "Not Supported",
	}
	if diff := cmp.Diff(want, got.Codes); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if !n.gpu(1).Persistence {
		t.Error("persistence mode is off")
	}
}

// Without rights nvidia-smi reads and changes nothing.
func TestSMIChangesNothingForNobody(t *testing.T) {
	n := startNode(t, "gpus: [{model: t4}]")
	for _, args := range [][]string{{"-r", "-i", "0"}, {"-pm", "1"}, {"compute-policy", "--set-timeslice=1"}} {
		cmd := n.smiCommand(args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobodyID, Gid: nobodyID}}
		out, err := cmd.Output()
		if err == nil || cmd.ProcessState.ExitCode() != 4 {
			t.Errorf("nvidia-smi %v: %v, %s", args, err, out)
		}
	}
	if n.gpu(0).Persistence || len(n.Machine().Log()) > 0 {
		t.Errorf("something was changed: %v", n.Machine().Log())
	}
	n.smiSays(0, "GPU 0: timeslice default\n", "compute-policy", "-l")
}
