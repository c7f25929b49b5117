// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"gpuslice/internal/config/strict"
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
	Layouts       map[string]Layout `yaml:"layouts,omitempty"`
	Nodes         []Node            `yaml:"nodes,omitempty"`
	ResourceNames []ResourceName    `yaml:"resourceNames,omitempty"`
	Health        *Health           `yaml:"health,omitempty"`
	NVIDIA        *NVIDIA           `yaml:"nvidia,omitempty"`
}

// Layout says how a GPU is offered; an empty one is the whole GPU.
type Layout struct {
	MIG         *MIG         `yaml:"mig,omitempty,flow"`
	TimeSlicing *TimeSlicing `yaml:"timeSlicing,omitempty,flow"`
}

// MIG says how a GPU is cut; exactly one of its ways is set.
type MIG struct {
	Instances map[string]int `yaml:"instances,omitempty"`
	Slots     []string       `yaml:"slots,omitempty"`
	Fill      string         `yaml:"fill,omitempty"`
	Dynamic   bool           `yaml:"dynamic,omitempty"`
	AsFound   bool           `yaml:"asFound,omitempty"` // the GPU stays as it is cut
	Profiles  List           `yaml:"profiles,omitempty" empty:"refused"`
	Resource  string         `yaml:"resource,omitempty"` // name of every instance's resource
}

// TimeSlicing says how often each device is offered.
type TimeSlicing struct {
	Replicas int            `yaml:"replicas"`
	Profiles map[string]int `yaml:"profiles,omitempty"` // replicas of instances of a profile, "*" = of any other
	Rename   Rename         `yaml:"rename,omitempty"`
	Policy   string         `yaml:"policy,omitempty"`
	Interval string         `yaml:"interval,omitempty"`
	Memory   string         `yaml:"memory,omitempty"`
	// FailRequestsGreaterThanOne refuses a container that asks for more than one share.
	FailRequestsGreaterThanOne bool `yaml:"failRequestsGreaterThanOne,omitempty"`
}

// Node is a rule for nodes; the first whose match fits a node is the node's.
type Node struct {
	Name   string `yaml:"name,omitempty"`
	Match  *Match `yaml:"match,omitempty" empty:"refused"`
	GPUs   []GPU  `yaml:"gpus"`
	Paused bool   `yaml:"paused,omitempty"`
}

// Match says which nodes a rule is for; all of it must fit.
type Match struct {
	NodeLabels map[string]string `yaml:"nodeLabels,omitempty" empty:"refused"`
	NodeNames  List              `yaml:"nodeNames,omitempty" empty:"refused"`
}

// GPU is a rule for GPUs of a node; the first whose select fits a GPU is the GPU's.
type GPU struct {
	Select *Select `yaml:"select,omitempty,flow" empty:"refused"`
	Layout string  `yaml:"layout"`
	Serve  string  `yaml:"serve,omitempty"`
	Reset  string  `yaml:"reset,omitempty"`
}

// Select says which GPUs a rule is for; all of it must fit.
type Select struct {
	Index   List   `yaml:"index,omitempty" empty:"refused"`
	UUID    List   `yaml:"uuid,omitempty" empty:"refused"`
	Product string `yaml:"product,omitempty" empty:"refused"`
	Memory  string `yaml:"memory,omitempty" empty:"refused"`
	Device  List   `yaml:"device,omitempty" empty:"refused"` // PCI ids such as 0x233010DE
	// MIGCapable selects GPUs that can be cut, or with false those that cannot.
	MIGCapable *bool `yaml:"migCapable,omitempty" empty:"refused"`
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
	DevicePluginConfig string `yaml:"devicePluginConfig,omitempty"`
	MIGPartedConfig    string `yaml:"migPartedConfig,omitempty"`
}

// List is a list of scalars that may be written as one scalar.
type List []string

// Fault implements strict.Reader.
func (List) Fault(n *yaml.Node) string {
	return strict.Unless(n.Kind != yaml.MappingNode, n, "a value or a list of values")
}

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

// MarshalYAML is the inverse of UnmarshalYAML: numbers are written as such.
func (l List) MarshalYAML() (any, error) {
	items := make([]any, len(l))
	for i, text := range l {
		items[i] = text
		if n, err := strconv.Atoi(text); err == nil && strconv.Itoa(n) == text {
			items[i] = n
		}
	}
	return items, nil
}

// Rename says under which resource name shares are offered.
type Rename struct {
	Suffix bool   // append ".shared"
	Name   string // use this name
}

// switchWords are words that YAML once read as true or false and that nobody means as a name.
var switchWords = []string{"true", "false", "yes", "no", "on", "off", "y", "n"}

// Fault implements strict.Reader.
func (Rename) Fault(n *yaml.Node) string {
	switch {
	case n.ShortTag() == "!!bool":
		return ""
	case slices.Contains(switchWords, strings.ToLower(n.Value)):
		return fmt.Sprintf("%q is text; write true or false, without quotes, or a resource name", n.Value)
	default:
		return strict.Unless(n.ShortTag() == "!!str" && n.Value != "", n, "true, false or a resource name such as gpu.shared")
	}
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

// MarshalYAML is the inverse of UnmarshalYAML.
func (r Rename) MarshalYAML() (any, error) {
	if r.Name != "" {
		return r.Name, nil
	}
	return r.Suffix, nil
}
