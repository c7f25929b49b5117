// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices

import (
	"context"
	"time"
)

// Handles are opaque and belong to the session that returned them.
// A handle outlives neither Shutdown nor the thing it names: then calls with it answer an error, never another thing's data.
type (
	// GPUHandle names a physical GPU or, where a call says so, a MIG device (nvmlDevice_t).
	GPUHandle uint64
	// GIHandle names a live GPU instance (nvmlGpuInstance_t).
	GIHandle uint64
	// CIHandle names a live compute instance (nvmlComputeInstance_t).
	CIHandle uint64
)

// Driver is one session with the NVIDIA driver, in plain Go types: the calls of NVML that this project makes, one to one.
// Implementations decide nothing: quirks are handled above the seam, in Hardware. Every error is a Code.
// Calls may block for as long as the driver likes; the caller bounds them.
type Driver interface {
	Enumerator
	Persister
	MemoryLimiter
	Partitioner
	ProcessLister
	EventSource
	FieldReader
	Topologist
}

// Enumerator finds the GPUs and says what they are.
type Enumerator interface {
	// Init opens the session. Calls before it, and after Shutdown, answer ErrUninitialized.
	Init() error
	Shutdown() error
	DriverVersion() (string, error)
	// CUDADriverVersion is 1000*major + 10*minor.
	CUDADriverVersion() (int, error)
	GPUCount() (int, error)
	GPUByIndex(index int) (GPUHandle, error)
	// GPUByBusID takes "00000000:65:00.0" and concerns that GPU alone.
	GPUByBusID(busID string) (GPUHandle, error)
	// GPUByUUID takes GPU and MIG UUIDs and fails with ErrLost for every UUID while any GPU of the node is lost.
	GPUByUUID(uuid string) (GPUHandle, error)
	Index(GPUHandle) (int, error)
	// Minor is the number in /dev/nvidia<minor>.
	Minor(GPUHandle) (int, error)
	// UUID is also answered for MIG devices.
	UUID(GPUHandle) (string, error)
	Name(GPUHandle) (string, error)
	// BusID is upper case with an eight-digit domain, as the driver prints it.
	BusID(GPUHandle) (string, error)
	// PCIDevice has the device in the upper half and the vendor in the lower: 0x233010DE.
	PCIDevice(GPUHandle) (device, subsystem uint32, err error)
	// Brand and Architecture are the numbers of nvml.h.
	Brand(GPUHandle) (int, error)
	Architecture(GPUHandle) (int, error)
	ComputeCapability(GPUHandle) (major, minor int, err error)
	// Memory is in bytes; a GPU without memory of its own answers ErrNotSupported.
	Memory(GPUHandle) (total uint64, err error)
	// VirtualizationMode is a number of nvml.h, such as VirtualizationVGPU.
	VirtualizationMode(GPUHandle) (int, error)
}

// VirtualizationVGPU is what the driver in a virtual machine says of a GPU that is a part of one of its host.
const VirtualizationVGPU = 2

// Persister reads and sets persistence mode, which keeps a GPU initialised without clients and so holds it against a reset and
// a change of its MIG mode.
type Persister interface {
	PersistenceMode(GPUHandle) (on bool, err error)
	SetPersistenceMode(gpu GPUHandle, on bool) error
}

// NoMemoryLimit is the hard limit of a cgroup that has none.
const NoMemoryLimit = ^uint64(0)

// MemoryLimits is what the processes of one cgroup may take of the memory of one GPU, in bytes.
type MemoryLimits struct {
	Soft uint64 // is theirs in any case
	Hard uint64 // above it allocations fail; NoMemoryLimit: they do not
	Used uint64
}

// MemoryLimiter bounds what the processes of a cgroup take of a GPU. The calls came with driver 615: before it they answer
// ErrFunctionNotFound, and ErrNotSupported where the GPU or its mode cannot. A cgroup is named by the path of its folder below
// a mounted cgroup v2 hierarchy; one that cannot be opened answers ErrOperatingSystem. Limits go with their cgroup.
type MemoryLimiter interface {
	// ReservedMemory is what the driver keeps of the GPU's memory for itself, in bytes.
	ReservedMemory(GPUHandle) (uint64, error)
	// SetMemoryLimits takes soft 0 and hard NoMemoryLimit for no limits.
	SetMemoryLimits(gpu GPUHandle, cgroup string, soft, hard uint64) error
	// MemoryLimits may answer ErrNotFound for a cgroup without limits.
	MemoryLimits(gpu GPUHandle, cgroup string) (MemoryLimits, error)
}

// Program is the driver's own program, nvidia-smi, for what the library has no call for. It is no part of a session but a
// client of its own. Bus ids are "00000000:65:00.0".
type Program interface {
	// Reset resets a GPU that nobody holds; while somebody does, the error wraps ErrInUse.
	Reset(ctx context.Context, busID string) error
	// TimeSlice is how long the GPU works for one process before it turns to the next: 0 the driver's default, 1 short, 2 medium,
	// 3 long. The error wraps ErrNotSupported where the GPU has no choice.
	TimeSlice(ctx context.Context, busID string) (int, error)
	// SetTimeSlice concerns processes that begin to compute afterwards.
	SetTimeSlice(ctx context.Context, busID string, interval int) error
}

// Holders knows what the driver does not tell: who else works with a GPU.
type Holders interface {
	// Clients are other processes that work with the GPU of that bus id and minor number; this one is none.
	Clients(busID string, minor int) []string
	// Modules are kernel modules that build on the driver's, which hold every GPU.
	Modules() []string
}

// GIProfile is what the driver says of one kind of GPU instance.
type GIProfile struct {
	ID           int    // the profile id, not the enum it was asked by
	Name         string // "1g.10gb+me"; empty where the driver has no name call
	Slices       int    // compute slices
	MaxInstances int
	SMs          int
	CopyEngines  int
	Decoders     int
	Encoders     int
	JPEGs        int
	OFAs         int
	MemoryMiB    uint64
	Graphics     bool
}

// Placement is a span of memory slices.
type Placement struct{ Start, Size int }

// GIInfo is a live GPU instance; ID is the driver's own and says nothing of its placement.
type GIInfo struct {
	ID        int
	ProfileID int
	Placement Placement
}

// CIProfile is what the driver says of one kind of compute instance inside a GPU instance.
type CIProfile struct {
	ID           int
	Slices       int
	MaxInstances int
}

// CIInfo is a live compute instance.
type CIInfo struct {
	ID        int
	ProfileID int
	Placement Placement
}

// Numbers of profile enums to ask for, from nvml.h 13.4: all below are tried, absent ones answer ErrNotSupported or ErrInvalidArgument.
const (
	GIProfileEnums = 18
	CIProfileEnums = 9
)

// Partitioner reads and changes how GPUs are cut.
type Partitioner interface {
	// MIGMode answers ErrNotSupported on a GPU that cannot be cut.
	MIGMode(GPUHandle) (current, pending bool, err error)
	// SetMIGMode returns first why the mode did not become active (nil: it did), then whether the call itself failed.
	SetMIGMode(gpu GPUHandle, on bool) (activation, err error)
	GIProfile(gpu GPUHandle, enum int) (GIProfile, error)
	GIPlacements(gpu GPUHandle, profileID int) ([]Placement, error)
	GIs(gpu GPUHandle, profileID int) ([]GIHandle, error)
	GIInfo(GIHandle) (GIInfo, error)
	CreateGI(gpu GPUHandle, profileID int, at Placement) (GIHandle, error)
	DestroyGI(GIHandle) error
	CIProfile(gi GIHandle, enum int) (CIProfile, error)
	CIs(gi GIHandle, profileID int) ([]CIHandle, error)
	CIInfo(CIHandle) (CIInfo, error)
	CreateCI(gi GIHandle, profileID int) (CIHandle, error)
	DestroyCI(CIHandle) error
	// MaxMIGDevices is 0 while MIG mode is off.
	MaxMIGDevices(GPUHandle) (int, error)
	// MIGDevice answers ErrNotFound for an index without a device; indices shift when instances come and go.
	MIGDevice(gpu GPUHandle, index int) (GPUHandle, error)
	// MIGDeviceIDs takes the handle of a MIG device.
	MIGDeviceIDs(mig GPUHandle) (gi, ci int, err error)
}

// ProcessKind is one of the driver's process lists.
type ProcessKind int

// The driver keeps one list per kind.
const (
	ComputeProcess ProcessKind = iota
	GraphicsProcess
	MPSProcess
)

// NoInstance stands for "the whole GPU" where the driver gives instance ids (0xFFFFFFFF in nvml.h).
const NoInstance = -1

// Process is one entry of a process list.
type Process struct {
	PID         int
	MemoryBytes uint64
	GI, CI      int // NoInstance outside MIG
}

// ProcessLister lists who uses a GPU; the driver leaves out, without a word, processes outside the caller's PID namespace.
type ProcessLister interface {
	Processes(gpu GPUHandle, kind ProcessKind) ([]Process, error)
}

// Event types of nvml.h.
const (
	EventXID            uint64 = 0x8
	EventGPUUnavailable uint64 = 0x4000
	EventRecoveryAction uint64 = 0x8000
)

// Event is one report of the driver about a GPU; GI and CI are NoInstance when it concerns all of it.
type Event struct {
	GPU    GPUHandle
	Type   uint64
	Data   uint64 // the XID of an EventXID
	GI, CI int
}

// EventSet collects the events of the GPUs registered with it.
type EventSet interface {
	// Register answers ErrNotSupported where the GPU has no such events.
	Register(gpu GPUHandle, types uint64) error
	// Wait answers ErrTimeout when nothing happened, ErrLost when a registered GPU fell off the bus.
	Wait(timeout time.Duration) (Event, error)
	Close() error
}

// EventSource makes event sets.
type EventSource interface {
	EventTypes(GPUHandle) (uint64, error)
	NewEventSet() (EventSet, error)
}

// Levels of nvml.h: what two GPUs have in common on the PCIe bus, from near to far.
const (
	LevelInternal   = 0  // their board
	LevelSingle     = 10 // one switch
	LevelMultiple   = 20 // several switches
	LevelHostBridge = 30
	LevelNode       = 40 // a NUMA node
	LevelSystem     = 50
)

// NVLinks is NVML_NVLINK_MAX_LINKS of nvml.h 13.4: no GPU that it knows has a link of that number or above.
const NVLinks = 36

// NVLinkEnd is what an NVLink ends at, by the numbers of nvml.h.
type NVLinkEnd int

// What a link may end at.
const (
	EndGPU     NVLinkEnd = 0
	EndNPU     NVLinkEnd = 1
	EndSwitch  NVLinkEnd = 2
	EndUnknown NVLinkEnd = 255
)

// Topologist says how GPUs reach each other.
type Topologist interface {
	// CommonAncestor is one of the levels.
	CommonAncestor(a, b GPUHandle) (level int, err error)
	// NVLinkActive answers ErrNotSupported on a GPU without NVLinks, and ErrInvalidArgument for a number that the GPU lacks.
	NVLinkActive(gpu GPUHandle, link int) (bool, error)
	// NVLinkEnd and NVLinkBusID say where an active link ends.
	NVLinkEnd(gpu GPUHandle, link int) (NVLinkEnd, error)
	// NVLinkBusID is written as BusID is; a switch has one too.
	NVLinkBusID(gpu GPUHandle, link int) (string, error)
}
