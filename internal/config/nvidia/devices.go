// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package nvidia

import (
	"fmt"
	"regexp"
	"strconv"
	"sync"

	"go.yaml.in/yaml/v3"

	"gpuslice/internal/config/strict"
)

// all stands for every device.
const all = "all"

// Devices says which devices of a resource are meant; the zero value is all.
type Devices struct {
	First int      // the first so many
	Only  []string // by index such as 0 or 0:1, or by UUID
}

const uuidText = `[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`

// wholeRef names a whole GPU, instanceRef an instance, each in every form that the device plugin knows. They are large, and most
// agents never meet such a config: each is made when it is first needed.
var (
	wholeRef    = onDemand(`^([0-9]{1,4}|GPU-` + uuidText + `)$`)
	instanceRef = onDemand(`^([0-9]{1,4}:[0-9]{1,4}|MIG-` + uuidText + `|MIG-GPU-` + uuidText + `/[0-9]{1,4}/[0-9]{1,4})$`)
	countText   = onDemand(`^[1-9][0-9]{0,4}$`)
)

func onDemand(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

const devicesWanted = "all, a number of devices, or a list of such as 0, 0:1, GPU-UUID, MIG-UUID or MIG-GPU-UUID/GI/CI"

// Fault implements strict.Reader.
func (Devices) Fault(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode {
		return strict.Unless(n.Value == all || countText().MatchString(n.Value), n, devicesWanted)
	}
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return strict.Unless(false, n, devicesWanted)
	}
	for _, item := range n.Content {
		if item.Kind != yaml.ScalarNode || !wholeRef().MatchString(item.Value) && !instanceRef().MatchString(item.Value) {
			return strict.Unless(false, item, "a device such as 0, 0:1, GPU-UUID, MIG-UUID or MIG-GPU-UUID/GI/CI")
		}
	}
	return ""
}

// UnmarshalYAML accepts all, 2, and [0, "0:1", GPU-...].
func (d *Devices) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.SequenceNode {
		return n.Decode(&d.Only)
	}
	if n.Value == all {
		return nil
	}
	first, err := strconv.Atoi(n.Value)
	if err != nil {
		return fmt.Errorf("line %d: want %s", n.Line, devicesWanted)
	}
	d.First = first
	return nil
}

// GPUs says which GPUs an entry of mig-parted's config is for.
type GPUs struct {
	All   bool
	Index []string
}

var indexText = onDemand(`^(0|[1-9][0-9]{0,3})$`)

const gpusWanted = "all or a list of indexes such as [0, 1]"

// Fault implements strict.Reader.
func (GPUs) Fault(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode {
		return strict.Unless(n.Value == all, n, gpusWanted)
	}
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return strict.Unless(false, n, gpusWanted)
	}
	for _, item := range n.Content {
		if item.Kind != yaml.ScalarNode || item.ShortTag() != "!!int" || !indexText().MatchString(item.Value) {
			return strict.Unless(false, item, "the index of a GPU such as 0")
		}
	}
	return ""
}

// UnmarshalYAML accepts all and [0, 1].
func (g *GPUs) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.SequenceNode {
		return n.Decode(&g.Index)
	}
	g.All = n.Value == all
	return nil
}
