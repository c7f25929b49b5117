// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package nvidia

import (
	"gpuslice/internal/config"
	"gpuslice/internal/config/strict"
)

// version is the one version of both formats.
const version = "v1"

// DevicePlugin is a config of the device plugin.
type DevicePlugin struct {
	Version   string     `yaml:"version"`
	Flags     Flags      `yaml:"flags"`
	Resources *Resources `yaml:"resources"`
	Sharing   Sharing    `yaml:"sharing"`
	IMEX      IMEX       `yaml:"imex"`
}

// Flags stand for the command line of NVIDIA's processes.
type Flags struct {
	MIGStrategy             string      `yaml:"migStrategy"`
	FailOnInitError         bool        `yaml:"failOnInitError"`
	MPSRoot                 string      `yaml:"mpsRoot"`
	DriverRoot              string      `yaml:"nvidiaDriverRoot"`
	DevRoot                 string      `yaml:"nvidiaDevRoot"`
	GDRCopyEnabled          bool        `yaml:"gdrcopyEnabled"`
	GDSEnabled              bool        `yaml:"gdsEnabled"`
	MOFEDEnabled            bool        `yaml:"mofedEnabled"`
	UseNodeFeatureAPI       bool        `yaml:"useNodeFeatureAPI"`
	DeviceDiscoveryStrategy string      `yaml:"deviceDiscoveryStrategy"`
	Plugin                  PluginFlags `yaml:"plugin"`
	GFD                     GFDFlags    `yaml:"gfd"`
}

// PluginFlags are those of the device plugin alone.
type PluginFlags struct {
	PassDeviceSpecs               bool        `yaml:"passDeviceSpecs"`
	DeviceListStrategy            config.List `yaml:"deviceListStrategy"`
	DeviceIDStrategy              string      `yaml:"deviceIDStrategy"`
	CDIAnnotationPrefix           string      `yaml:"cdiAnnotationPrefix"`
	CTKPath                       string      `yaml:"nvidiaCTKPath"`
	ContainerDriverRoot           string      `yaml:"containerDriverRoot"`
	SharedDevicesAllocationPolicy string      `yaml:"sharedDevicesAllocationPolicy"`
}

// GFDFlags are those of GPU Feature Discovery.
type GFDFlags struct {
	Oneshot         bool   `yaml:"oneshot"`
	NoTimestamp     bool   `yaml:"noTimestamp"`
	SleepInterval   string `yaml:"sleepInterval"`
	OutputFile      string `yaml:"outputFile"`
	MachineTypeFile string `yaml:"machineTypeFile"`
}

// Resources name the resources that devices are offered under.
type Resources struct {
	GPUs []Resource `yaml:"gpus"`
	MIG  []Resource `yaml:"mig"`
}

// Resource names the devices of which the product or profile fits a pattern.
type Resource struct {
	Pattern string `yaml:"pattern"`
	Name    string `yaml:"name"`
}

// Sharing says how devices are offered more than once.
type Sharing struct {
	TimeSlicing *Replicated `yaml:"timeSlicing"`
	MPS         *Replicated `yaml:"mps"`
}

// Replicated lists what is offered more than once.
type Replicated struct {
	RenameByDefault            bool                 `yaml:"renameByDefault"`
	FailRequestsGreaterThanOne bool                 `yaml:"failRequestsGreaterThanOne"`
	Resources                  []ReplicatedResource `yaml:"resources"`
}

// ReplicatedResource offers devices of one resource more than once.
type ReplicatedResource struct {
	Name     string  `yaml:"name"`
	Rename   string  `yaml:"rename"`
	Devices  Devices `yaml:"devices"`
	Replicas int     `yaml:"replicas"`
}

// IMEX asks for channels of multi-node NVLink.
type IMEX struct {
	ChannelIDs []int `yaml:"channelIDs"`
	Required   bool  `yaml:"required"`
}

// LoadDevicePlugin reads and checks a config of the device plugin. The error is an Issues with everything that is wrong;
// warnings name the keys that have no effect here. An empty text shares nothing.
func LoadDevicePlugin(file string, text []byte) (c DevicePlugin, warnings strict.Issues, err error) {
	c, d, err := readDevicePlugin(file, text)
	if err != nil {
		return DevicePlugin{}, nil, err
	}
	return c, d.Warnings(), nil
}

func readDevicePlugin(file string, text []byte) (DevicePlugin, *strict.Document, error) {
	c, d, err := strict.Read[DevicePlugin](file, text, "version, flags or sharing")
	if err != nil {
		return DevicePlugin{}, d, err
	}
	check{d}.devicePlugin(c)
	return c, d, d.Err()
}
