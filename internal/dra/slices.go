// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package dra

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"gpuslice/internal/agent"
	"gpuslice/pkg/health"
)

// DriverName names the driver in slices, claims and classes, and is the domain of its attributes and capacities.
const DriverName = "gpu.nvidia.com"

// Keys of taints; nothing new is put on such a device. The first two are those of NVIDIA's driver.
const (
	taintLost      = DriverName + "/gpu-lost" // the GPU does not answer, or fell off the bus
	taintXID       = DriverName + "/xid"      // the value is the XID
	taintUnhealthy = "gpuslice.dev/unhealthy" // the value is how that is known
	taintPending   = "gpuslice.dev/reset-pending"
)

// Slices turns a view into what is published: one slice for each GPU that DRA serves, so that a change of one GPU rewrites
// one slice and a taint never meets the API's limit of 64 devices. The order is that of the bus; within a GPU it packs,
// because the scheduler takes the first device that fits: small profiles before large.
func Slices(v *agent.View, roots PCIeRoots) []resourceslice.Slice {
	list := []resourceslice.Slice{}
	index := map[string]int{} // by PCI address
	for _, d := range offered(v) {
		i, known := index[d.GPU.PCI]
		if !known {
			i = len(list)
			index[d.GPU.PCI] = i
			list = append(list, resourceslice.Slice{})
		}
		list[i].Devices = append(list[i].Devices, publish(d, v, roots))
	}
	return list
}

// offered lists the devices of the view that DRA serves, each name once: the API refuses a pool that has one twice, and a
// new GPU can have the minor number of one that is gone. The healthy one is the one that can be had.
func offered(v *agent.View) []agent.Device {
	list := []agent.Device{}
	for _, d := range v.Devices {
		if d.API != agent.DRA {
			continue
		}
		twin := slices.IndexFunc(list, func(x agent.Device) bool { return x.Name == d.Name })
		switch {
		case twin < 0:
			list = append(list, d)
		case list[twin].Fault != "" && d.Fault == "":
			list[twin] = d
		}
	}
	slices.SortStableFunc(list, func(a, b agent.Device) int {
		return cmp.Or(cmp.Compare(a.GPU.PCI, b.GPU.PCI), compareSlots(a, b))
	})
	return list
}

func compareSlots(a, b agent.Device) int {
	if a.Instance == nil || b.Instance == nil {
		return 0
	}
	x, y := a.Instance.Slot, b.Instance.Slot
	return cmp.Or(
		cmp.Compare(x.Profile.ComputeSlices, y.Profile.ComputeSlices),
		cmp.Compare(x.Profile.MemorySlices, y.Profile.MemorySlices),
		cmp.Compare(x.Profile.ID, y.Profile.ID),
		cmp.Compare(x.Start, y.Start),
	)
}

func publish(d agent.Device, v *agent.View, roots PCIeRoots) resourceapi.Device {
	published := resourceapi.Device{Name: d.Name, Attributes: attributesOf(d, v.Node, roots), Capacity: capacityOf(d)}
	published.Taints = taintsOf(d)
	return published
}

// taintsOf says what is wrong with a device. It changes only when that does, so that the API server keeps since when it is so.
func taintsOf(d agent.Device) []resourceapi.DeviceTaint {
	taint := func(key, value string) []resourceapi.DeviceTaint {
		return []resourceapi.DeviceTaint{{Key: key, Value: value, Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	}
	switch source := d.Cause.Source; {
	case d.Fault == "" && d.Pending != "":
		return taint(taintPending, "")
	case d.Fault == "":
		return nil
	case source == health.XID:
		return taint(taintXID, strconv.FormatUint(d.Cause.XID, 10))
	case source == health.Unreachable || source == "":
		return taint(taintLost, "")
	default:
		return taint(taintUnhealthy, string(source))
	}
}

// withoutTaints is for clusters that drop taints: there a device that is not well leaves the slice, unless a claim holds it.
func withoutTaints(list []resourceslice.Slice, held map[string]bool) []resourceslice.Slice {
	kept := make([]resourceslice.Slice, len(list))
	for i, s := range list {
		for _, d := range s.Devices {
			if len(d.Taints) > 0 && !held[d.Name] {
				continue
			}
			d.Taints = nil
			kept[i].Devices = append(kept[i].Devices, d)
		}
	}
	return kept
}

// Pool is what is published for a node. A pool without devices has one empty slice, which says that the driver is up.
func Pool(list []resourceslice.Slice) resourceslice.Pool {
	if len(list) == 0 {
		list = []resourceslice.Slice{{}}
	}
	return resourceslice.Pool{Slices: list}
}

// Objects are the slices of a pool as they stand in the API server, but for what that adds.
func Objects(p resourceslice.Pool, node string) []resourceapi.ResourceSlice {
	objects := make([]resourceapi.ResourceSlice, len(p.Slices))
	for i, s := range p.Slices {
		objects[i] = resourceapi.ResourceSlice{
			TypeMeta:   metav1.TypeMeta{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: "ResourceSlice"},
			ObjectMeta: metav1.ObjectMeta{GenerateName: fmt.Sprintf("%05x-%s-%s-", i, DriverName, node)},
			Spec: resourceapi.ResourceSliceSpec{
				Driver:   DriverName,
				NodeName: &node,
				Pool:     resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: int64(len(p.Slices))},
				Devices:  s.Devices,
			},
		}
	}
	return objects
}
