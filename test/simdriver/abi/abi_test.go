// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package abi

import (
	"encoding/binary"
	"testing"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// go-nvml's structures have the layout of the C compiler.
func TestLayoutsAreThoseOfTheHeader(t *testing.T) {
	for _, tt := range []struct {
		name string
		ours any
		want uintptr
	}{
		{"PCIInfo", PCIInfo{}, unsafe.Sizeof(nvml.PciInfo{})},
		{"Memory", Memory{}, unsafe.Sizeof(nvml.Memory{})},
		{"MemoryV2", MemoryV2{}, unsafe.Sizeof(nvml.Memory_v2{})},
		{"GIProfile", GIProfile{}, unsafe.Sizeof(nvml.GpuInstanceProfileInfo{})},
		{"GIProfileV2", GIProfileV2{}, unsafe.Sizeof(nvml.GpuInstanceProfileInfo_v2{})},
		{"GIProfileV3", GIProfileV3{}, unsafe.Sizeof(nvml.GpuInstanceProfileInfo_v3{})},
		{"Placement", Placement{}, unsafe.Sizeof(nvml.GpuInstancePlacement{})},
		{"CIProfile", CIProfile{}, unsafe.Sizeof(nvml.ComputeInstanceProfileInfo{})},
		{"CIProfileV2", CIProfileV2{}, unsafe.Sizeof(nvml.ComputeInstanceProfileInfo_v2{})},
		{"CIProfileV3", CIProfileV3{}, unsafe.Sizeof(nvml.ComputeInstanceProfileInfo_v3{})},
		{"Attributes", Attributes{}, unsafe.Sizeof(nvml.DeviceAttributes{})},
		{"ProcessV1", ProcessV1{}, unsafe.Sizeof(nvml.ProcessInfo_v1{})},
		{"Process", Process{}, unsafe.Sizeof(nvml.ProcessInfo{})},
	} {
		if got := binary.Size(tt.ours); got != int(tt.want) {
			t.Errorf("%s has %d bytes, want %d", tt.name, got, tt.want)
		}
	}
	offsets := map[string][2]uintptr{
		"name of v2":      {offset(GIProfileV2{Name: [96]byte{1}}, 1), unsafe.Offsetof(nvml.GpuInstanceProfileInfo_v2{}.Name)},
		"name of v3":      {offset(GIProfileV3{Name: [96]byte{1}}, 1), unsafe.Offsetof(nvml.GpuInstanceProfileInfo_v3{}.Name)},
		"memory of v2":    {offset(GIProfileV2{MemoryMiB: 1}, 1), unsafe.Offsetof(nvml.GpuInstanceProfileInfo_v2{}.MemorySizeMB)},
		"capabilities":    {offset(GIProfileV3{Capabilities: 1}, 1), unsafe.Offsetof(nvml.GpuInstanceProfileInfo_v3{}.Capabilities)},
		"bus id":          {offset(PCIInfo{BusID: [32]byte{1}}, 1), unsafe.Offsetof(nvml.PciInfo{}.BusId)},
		"device id":       {offset(PCIInfo{DeviceID: 1}, 1), unsafe.Offsetof(nvml.PciInfo{}.PciDeviceId)},
		"GI of a process": {offset(Process{GI: 1}, 1), unsafe.Offsetof(nvml.ProcessInfo{}.GpuInstanceId)},
		"free memory":     {offset(MemoryV2{Free: 1}, 1), unsafe.Offsetof(nvml.Memory_v2{}.Free)},
		"slices":          {offset(Attributes{GISlices: 1}, 1), unsafe.Offsetof(nvml.DeviceAttributes{}.GpuInstanceSliceCount)},
	}
	for name, o := range offsets {
		if o[0] != o[1] {
			t.Errorf("%s is at byte %d, want %d", name, o[0], o[1])
		}
	}
}

// offset is where the one byte of that value lies.
func offset(v any, value byte) uintptr {
	for i, b := range Bytes(v) {
		if b == value {
			return uintptr(i)
		}
	}
	return ^uintptr(0)
}

func TestNumbersAreThoseOfTheHeader(t *testing.T) {
	if VersionMismatch != nvml.ERROR_ARGUMENT_VERSION_MISMATCH || GraphicsCapable != nvml.GPU_INSTANCE_PROFILE_CAPS_GFX {
		t.Error("a number differs from nvml.h")
	}
	v2, v3 := nvml.STRUCT_VERSION(nvml.GpuInstanceProfileInfo_v2{}, 2), nvml.STRUCT_VERSION(nvml.GpuInstanceProfileInfo_v3{}, 3)
	if Version(GIProfileV2{}, 2) != v2 || Version(GIProfileV3{}, 3) != v3 {
		t.Error("a version differs from nvml.h")
	}
}
