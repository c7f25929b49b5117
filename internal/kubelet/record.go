// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package kubelet

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Allocation is one device id that a container holds under a resource name.
type Allocation struct {
	Resource string
	ID       string
	Holder   string // "team-a/trainer/main", or "pod UID/main" where only the checkpoint knows it
}

// Record is what the kubelet says at one moment.
type Record struct {
	Allocations []Allocation
	// Absent says that there is no kubelet on this node: no socket and no checkpoint.
	Absent bool
	// ForeignPIDs says that the kubelet runs outside our PID namespace, so that process lists of the driver leave others out.
	ForeignPIDs bool
	// Foreign is the sockets on which NVIDIA's device plugin serves.
	Foreign []string
}

// checkpoint is the device manager's file kubelet_internal_checkpoint, as far as it is read here.
type checkpoint struct {
	Data struct {
		PodDeviceEntries []struct {
			PodUID        string
			ContainerName string
			ResourceName  string
			DeviceIDs     json.RawMessage
		}
	}
}

type checkpointEntry struct {
	Allocation
	podUID, container string
}

// parseCheckpoint reads the checkpoint. Device ids are grouped by NUMA node; older kubelets wrote a plain list.
func parseCheckpoint(text []byte) ([]checkpointEntry, error) {
	var c checkpoint
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, fmt.Errorf("decode device manager checkpoint: %w", err)
	}
	entries := []checkpointEntry{}
	for _, e := range c.Data.PodDeviceEntries {
		byNUMA, ids := map[string][]string{}, []string{}
		if json.Unmarshal(e.DeviceIDs, &byNUMA) == nil {
			for _, list := range byNUMA {
				ids = append(ids, list...)
			}
		} else if err := json.Unmarshal(e.DeviceIDs, &ids); err != nil {
			return nil, fmt.Errorf("decode devices of pod %s in device manager checkpoint: %w", e.PodUID, err)
		}
		for _, id := range ids {
			entries = append(entries, checkpointEntry{
				Allocation: Allocation{Resource: e.ResourceName, ID: id, Holder: "pod " + e.PodUID + "/" + e.ContainerName},
				podUID:     e.PodUID, container: e.ContainerName,
			})
		}
	}
	return entries, nil
}

// heldBy picks the ids that one container holds. An id may be held by an init container and by the one that comes after it.
func heldBy(written []checkpointEntry, podUID, container string) []string {
	ids := []string{}
	for _, e := range written {
		if e.podUID == podUID && e.container == container {
			ids = append(ids, e.ID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// merge joins the records: everything that podresources lists, and of the checkpoint what no evidence says is over.
func merge(listed []Allocation, written []checkpointEntry, isOver func(podUID string) bool) []Allocation {
	all := slices.Clone(listed)
	for _, e := range written {
		known := slices.ContainsFunc(listed, func(a Allocation) bool { return a.Resource == e.Resource && a.ID == e.ID })
		if !known && !isOver(e.podUID) {
			all = append(all, e.Allocation)
		}
	}
	slices.SortFunc(all, func(a, b Allocation) int {
		return strings.Compare(a.Resource+"\x00"+a.ID+"\x00"+a.Holder, b.Resource+"\x00"+b.ID+"\x00"+b.Holder)
	})
	return slices.Compact(all)
}
