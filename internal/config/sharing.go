// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package config

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// The identity of the format.
const (
	APIVersion = "gpuslice.dev/v1alpha1"
	Kind       = "SharingConfig"
)

// The tag empty:"refused" marks a selector: absent it fits everything, present it must say something.

// Sharing is one node configuration for a whole cluster.
type Sharing struct {
	APIVersion    string            `yaml:"apiVersion"`
	Kind          string            `yaml:"kind"`
	Layouts       map[string]Layout `yaml:"layouts"`
	Nodes         []Node            `yaml:"nodes"`
	ResourceNames []ResourceName    `yaml:"resourceNames"`
	Health        *Health           `yaml:"health"`
	NVIDIA        *NVIDIA           `yaml:"nvidia"`
}

// Layout says how a GPU is offered; an empty one is the whole GPU.
type Layout struct {
	MIG         *MIG         `yaml:"mig"`
	TimeSlicing *TimeSlicing `yaml:"timeSlicing"`
}

// MIG says how a GPU is cut; exactly one of its ways is set.
type MIG struct {
	Instances map[string]int `yaml:"instances"`
	Slots     []string       `yaml:"slots"`
	Fill      string         `yaml:"fill"`
	Dynamic   bool           `yaml:"dynamic"`
	Profiles  List           `yaml:"profiles" empty:"refused"`
}

// TimeSlicing says how often each device is offered.
type TimeSlicing struct {
	Replicas int    `yaml:"replicas"`
	Rename   Rename `yaml:"rename"`
	Policy   string `yaml:"policy"`
	Interval string `yaml:"interval"`
	Memory   string `yaml:"memory"`
}

// Node is a rule for nodes; the first whose match fits a node is the node's.
type Node struct {
	Name   string `yaml:"name"`
	Match  *Match `yaml:"match" empty:"refused"`
	GPUs   []GPU  `yaml:"gpus"`
	Paused bool   `yaml:"paused"`
}

// Match says which nodes a rule is for; all of it must fit.
type Match struct {
	NodeLabels map[string]string `yaml:"nodeLabels" empty:"refused"`
	NodeNames  List              `yaml:"nodeNames" empty:"refused"`
}

// GPU is a rule for GPUs of a node; the first whose select fits a GPU is the GPU's.
type GPU struct {
	Select *Select `yaml:"select" empty:"refused"`
	Layout string  `yaml:"layout"`
	Serve  string  `yaml:"serve"`
	Reset  string  `yaml:"reset"`
}

// Select says which GPUs a rule is for; all of it must fit.
type Select struct {
	Index   List   `yaml:"index" empty:"refused"`
	UUID    List   `yaml:"uuid" empty:"refused"`
	Product string `yaml:"product" empty:"refused"`
	Memory  string `yaml:"memory" empty:"refused"`
}

// ResourceName gives GPUs of a product a resource name of their own.
type ResourceName struct {
	Product string `yaml:"product"`
	Name    string `yaml:"name"`
}

// Health overrides what single XIDs mean.
type Health struct {
	XIDs map[string]string `yaml:"xids"`
}

// NVIDIA names the ConfigMaps with configs in NVIDIA's formats.
type NVIDIA struct {
	DevicePluginConfig string `yaml:"devicePluginConfig"`
	MIGPartedConfig    string `yaml:"migPartedConfig"`
}

// List is a list of scalars that may be written as one scalar.
type List []string

// UnmarshalYAML accepts 3, "0-1", [0, 1] and ["0-1", 3].
func (l *List) UnmarshalYAML(n *yaml.Node) error {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	for _, item := range items {
		if item.Kind != yaml.ScalarNode {
			return fmt.Errorf("line %d: want a value or a list of values", item.Line)
		}
		*l = append(*l, item.Value)
	}
	return nil
}

// Rename says under which resource name shares are offered.
type Rename struct {
	Suffix bool   // append ".shared"
	Name   string // use this name
}

// UnmarshalYAML accepts true, false and a name.
func (r *Rename) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: want true, false or a resource name", n.Line)
	}
	if n.Tag == "!!bool" {
		return n.Decode(&r.Suffix)
	}
	r.Name = n.Value
	return nil
}
