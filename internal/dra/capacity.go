// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package dra

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"gpuslice/internal/agent"
	"gpuslice/pkg/mig"
)

type capacities map[resourceapi.QualifiedName]resourceapi.DeviceCapacity

func (c capacities) memory(mib uint64) {
	if mib > 0 { // 0 = the driver does not say
		c["memory"] = resourceapi.DeviceCapacity{Value: *resource.NewQuantity(int64(mib)<<20, resource.BinarySI)}
	}
}

func (c capacities) count(name resourceapi.QualifiedName, n int) {
	c[name] = resourceapi.DeviceCapacity{Value: *resource.NewQuantity(int64(n), resource.BinarySI)}
}

// capacityOf counts what a device has: a whole GPU its memory; an instance what its profile gives it, none of an engine
// included, and one of each memory slice that it occupies.
func capacityOf(d agent.Device) capacities {
	c := capacities{}
	switch {
	case d.Instance == nil && d.GPU.Unified: // what it works in is the host's, and no part of the device
		return c
	case d.Instance == nil:
		c.memory(d.GPU.MemoryMiB)
		return c
	}
	c.profile(d.Instance.Slot.Profile)
	for i := range d.Instance.Slot.Profile.MemorySlices {
		c.count(resourceapi.QualifiedName(fmt.Sprintf("memorySlice%d", d.Instance.Slot.Start+i)), 1)
	}
	return c
}

func (c capacities) profile(p mig.Profile) {
	c.memory(p.MemoryMiB)
	c.count("multiprocessors", p.Engines.SMs)
	c.count("copyEngines", p.Engines.Copy)
	c.count("decoders", p.Engines.Decoder)
	c.count("encoders", p.Engines.Encoder)
	c.count("jpegEngines", p.Engines.JPEG)
	c.count("ofaEngines", p.Engines.OFA)
}
