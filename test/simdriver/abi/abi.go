// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package abi is the memory layout of the structures of nvml.h that cross the socket between library and daemon: little
// endian, with the padding of the 64-bit C ABI. Blank fields are padding.
package abi

import "encoding/binary"

// Numbers of nvml.h that are no answers of a driver seam.
const (
	// VersionMismatch answers a structure of a version that the driver does not know.
	VersionMismatch = 25
	// NoInstance stands for the GPU as a whole.
	NoInstance = ^uint32(0)
	// GraphicsCapable is a bit of GIProfileV3.Capabilities.
	GraphicsCapable = 2
)

// PCIInfo is nvmlPciInfo_t.
type PCIInfo struct {
	BusIDLegacy                                [16]byte
	Domain, Bus, Device, DeviceID, SubsystemID uint32
	BusID                                      [32]byte
}

// Memory is nvmlMemory_t, in bytes.
type Memory struct{ Total, Free, Used uint64 }

// MemoryV2 is nvmlMemory_v2_t, in bytes.
type MemoryV2 struct {
	Version                     uint32
	_                           uint32
	Total, Reserved, Free, Used uint64
}

// Engines are the counts that every profile structure of a GPU instance has in a row.
type Engines struct{ SMs, CopyEngines, Decoders, Encoders, JPEGs, OFAs uint32 }

// GIProfile is nvmlGpuInstanceProfileInfo_t.
type GIProfile struct {
	ID, P2P, Slices, Instances uint32
	Engines
	MemoryMiB uint64
}

// GIProfileV2 is nvmlGpuInstanceProfileInfo_v2_t.
type GIProfileV2 struct {
	Version, ID, P2P, Slices, Instances uint32
	Engines
	_         uint32
	MemoryMiB uint64
	Name      [96]byte
}

// GIProfileV3 is nvmlGpuInstanceProfileInfo_v3_t.
type GIProfileV3 struct {
	Version, ID, Slices, Instances uint32
	Engines
	MemoryMiB    uint64
	Name         [96]byte
	Capabilities uint32
	_            uint32
}

// Placement is nvmlGpuInstancePlacement_t and nvmlComputeInstancePlacement_t.
type Placement struct{ Start, Size uint32 }

// GIInfo is nvmlGpuInstanceInfo_t.
type GIInfo struct {
	Device        uint64
	ID, ProfileID uint32
	Placement     Placement
}

// CIProfile is nvmlComputeInstanceProfileInfo_t.
type CIProfile struct {
	ID, Slices, Instances uint32
	Engines
}

// CIProfileV2 is nvmlComputeInstanceProfileInfo_v2_t.
type CIProfileV2 struct {
	Version uint32
	CIProfile
	Name [96]byte
}

// CIProfileV3 is nvmlComputeInstanceProfileInfo_v3_t.
type CIProfileV3 struct {
	CIProfileV2
	Capabilities uint32
}

// CIInfo is nvmlComputeInstanceInfo_t.
type CIInfo struct {
	Device, GPUInstance uint64
	ID, ProfileID       uint32
	Placement           Placement
}

// Attributes is nvmlDeviceAttributes_t.
type Attributes struct {
	Engines
	GISlices, CISlices uint32
	MemoryMiB          uint64
}

// ProcessV1 is nvmlProcessInfo_v1_t.
type ProcessV1 struct {
	PID         uint32
	_           uint32
	MemoryBytes uint64
}

// Process is nvmlProcessInfo_v2_t, which nvml.h also calls nvmlProcessInfo_t.
type Process struct {
	PID         uint32
	_           uint32
	MemoryBytes uint64
	GI, CI      uint32
}

// Event is nvmlEventData_t.
type Event struct {
	Device, Type, Data uint64
	GI, CI             uint32
}

// FieldValue is nvmlFieldValue_t.
type FieldValue struct {
	ID, Scope          uint32
	Timestamp, Latency int64
	Type, Return       uint32
	Value              uint64
}

// UnsignedLongLong is the type of a FieldValue whose number takes all of it.
const UnsignedLongLong = 3

// Bytes is the memory of a value of fixed size.
func Bytes(v any) []byte {
	b, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		// Every type above has a fixed size, so only a programming error leads here, and an empty answer shows it.
		return nil
	}
	return b
}

// Version is what the version field of a structure of this package holds.
func Version(v any, number uint32) uint32 { return uint32(binary.Size(v)) | number<<24 }

// SetText puts a string into a fixed buffer, with its closing zero.
func SetText(buffer []byte, text string) { copy(buffer[:len(buffer)-1], text) }
