// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"go.yaml.in/yaml/v3"
)

// machineFile is a machine in YAML. Every key may be left out; docs beside the fields give the default.
type machineFile struct {
	Seed      int64                    `yaml:"seed"`      // of UUIDs and boot ids; 0
	BootID    string                   `yaml:"bootID"`    // from the seed
	UUIDReuse *bool                    `yaml:"uuidReuse"` // a slot made again has its old UUID; true
	Driver    driverFile               `yaml:"driver"`
	Platform  string                   `yaml:"platform"` // Tegra or WSL; a machine with cards
	Models    map[string]modelFile     `yaml:"models"`   // products that the built-in tables do not know, by key
	GPUs      []gpuFile                `yaml:"gpus"`
	Links     linksFile                `yaml:"links"`
	Latencies map[string]time.Duration `yaml:"latencies"` // by call
	Faults    []faultFile              `yaml:"faults"`

	SystemMemoryMiB *uint64 `yaml:"systemMemoryMiB"` // that of a host with 128 GB
}

type driverFile struct {
	Version      string `yaml:"version"`      // defaultVersion
	CUDA         string `yaml:"cuda"`         // defaultCUDA
	State        string `yaml:"state"`        // loaded, unloaded, mismatched, absent; loaded
	ProfileNames *bool  `yaml:"profileNames"` // the driver tells profile names; true
	MemoryLimits *bool  `yaml:"memoryLimits"` // cgroups can be given limits; true from driver 615 on
}

// gpuFile is one GPU, or count equal ones.
type gpuFile struct {
	line             int
	Model            string              `yaml:"model"`
	Count            int                 `yaml:"count"`        // 1
	UUID             string              `yaml:"uuid"`         // from the seed
	Minor            *int                `yaml:"minor"`        // the index
	PCI              string              `yaml:"pci"`          // ascending
	PCISubsystem     uint32              `yaml:"pciSubsystem"` // 0
	NUMA             *int                `yaml:"numa"`         // the first half of the GPUs 0, the second 1
	MIG              *bool               `yaml:"mig"`          // on if it has instances
	Pending          *bool               `yaml:"pending"`
	Instances        []string            `yaml:"instances"` // "3g.40gb@4", "3g.40gb@4{1c 2c}", "1g.10gb@0{}"
	SwappedHalves    bool                `yaml:"swappedHalves"`
	ModeChangeResets bool                `yaml:"modeChangeResets"` // SetMIGMode resets where a reset is needed
	Reset            string              `yaml:"reset"`            // works, unsupported, ignored; works
	RenumberOnReset  bool                `yaml:"renumberOnReset"`
	Events           *bool               `yaml:"events"` // the GPU has events; true
	Persistence      bool                `yaml:"persistence"`
	ReservedMiB      *uint64             `yaml:"reservedMiB"` // memory that the driver keeps for itself; a 128th
	Lost             bool                `yaml:"lost"`
	Signs            map[string]string   `yaml:"signs"`       // what the GPU says of its health, as ParseSign reads it; nothing
	Unsupported      []string            `yaml:"unsupported"` // calls of devices.Driver that this GPU answers with NOT_SUPPORTED
	Profiles         map[int]profilePart `yaml:"profiles"`    // other names or sizes, by profile id
	Processes        []processFile       `yaml:"processes"`
}

// profilePart overrides one profile of a GPU, as driver versions do.
type profilePart struct {
	Name      string `yaml:"name"`
	MemoryMiB uint64 `yaml:"memoryMiB"`
}

type processFile struct {
	PID       int    `yaml:"pid"`
	Namespace string `yaml:"namespace"` // as in Client; the host's
	Kind      string `yaml:"kind"`      // compute, graphics, mps; compute
	MemoryMiB uint64 `yaml:"memoryMiB"`
	Instance  string `yaml:"instance"` // "3g.40gb@4"; the GPU as a whole
	CI        int    `yaml:"ci"`
}

type faultFile struct {
	line   int
	Call   string `yaml:"call"`
	Client string `yaml:"client"`
	GPUs   []int  `yaml:"gpus"`
	Nth    int    `yaml:"nth"`
	Code   string `yaml:"code"` // UNKNOWN
	Form   string `yaml:"form"` // refused, done, hung; refused
}

// modelFile is the table of a product.
type modelFile struct {
	line              int
	Name              string        `yaml:"name"`
	Architecture      int           `yaml:"architecture"` // numbers of nvml.h
	Brand             int           `yaml:"brand"`
	ComputeCapability string        `yaml:"computeCapability"` // "9.0"
	PCIDeviceID       uint32        `yaml:"pciDeviceID"`
	MemoryMiB         uint64        `yaml:"memoryMiB"`
	SMs               int           `yaml:"sms"`
	MemorySlices      int           `yaml:"memorySlices"`
	ComputeSlices     int           `yaml:"computeSlices"`
	NeedsReset        bool          `yaml:"modeNeedsReset"`
	SurvivesReboot    bool          `yaml:"modeSurvivesReboot"`
	NVLinks           int           `yaml:"nvlinks"`    // into NVSwitch; 0
	NoMemory          bool          `yaml:"noMemory"`   // it works in the host's
	Integrated        bool          `yaml:"integrated"` // into a system on a chip
	Virtual           bool          `yaml:"virtual"`    // a part of a GPU that the machine's own host has cut
	Profiles          []profileFile `yaml:"profiles"`
}

// profileFile is one GPU-instance profile; its compute instances divide it in every way that slices allow.
type profileFile struct {
	Name         string `yaml:"name"`
	ID           int    `yaml:"id"`
	Enum         int    `yaml:"enum"`
	Slices       int    `yaml:"slices"`
	MaxInstances int    `yaml:"maxInstances"`
	SMs          int    `yaml:"sms"`
	CopyEngines  int    `yaml:"copyEngines"`
	Decoders     int    `yaml:"decoders"`
	Encoders     int    `yaml:"encoders"`
	JPEGs        int    `yaml:"jpegs"`
	OFAs         int    `yaml:"ofas"`
	MemoryMiB    uint64 `yaml:"memoryMiB"`
	Graphics     bool   `yaml:"graphics"`
	Size         int    `yaml:"size"` // memory slices of a placement
	Starts       []int  `yaml:"starts"`
}

// ParseYAML makes the machine of a machine file. An unknown key is an error with its line and the valid keys.
func ParseYAML(data []byte) (*Machine, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	if err := decoder.Decode(&document); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("decode: %w", err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("decode: more than one YAML document")
	}
	var file machineFile
	if document.Kind != 0 {
		if err := errors.Join(unknownKeys[machineFile](&document)...); err != nil {
			return nil, err
		}
		if err := document.Decode(&file); err != nil {
			return nil, fmt.Errorf("decode: %w", err)
		}
	}
	return file.build()
}

// UnmarshalYAML keeps the line for later errors.
func (g *gpuFile) UnmarshalYAML(n *yaml.Node) error {
	type plain gpuFile
	g.line, g.Count = n.Line, 1
	return n.Decode((*plain)(g))
}

// UnmarshalYAML keeps the line for later errors.
func (f *faultFile) UnmarshalYAML(n *yaml.Node) error {
	type plain faultFile
	f.line = n.Line
	return n.Decode((*plain)(f))
}

// UnmarshalYAML keeps the line for later errors.
func (m *modelFile) UnmarshalYAML(n *yaml.Node) error {
	type plain modelFile
	m.line = n.Line
	return n.Decode((*plain)(m))
}

// located puts the line before an error; specs on the command line have none.
func located(line int, err error) error {
	if line == 0 || err == nil {
		return err
	}
	return fmt.Errorf("line %d: %w", line, err)
}
