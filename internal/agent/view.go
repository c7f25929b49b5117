// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpuslice/internal/kubelet"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/health"
	"gpuslice/pkg/mig"
	"gpuslice/pkg/timeslice"
	"gpuslice/pkg/topology"
)

// API is one of the two ways to hand devices out.
type API string

// The two APIs; the zero value is neither.
const (
	DevicePlugin API = "device-plugin"
	DRA          API = "dra"
)

// Device is one allocatable thing: a whole GPU or an instance of it.
type Device struct {
	UUID     string
	Name     string // "gpu-0" or "gpu-0-mig-3g40gb-9-4", as DRA calls it
	GPU      devices.GPU
	Instance *mig.Instance // nil for a whole GPU
	API      API
	Resource string // "nvidia.com/mig-3g.40gb"
	Replicas int    // 1 = exclusive
	Renamed  bool   // its shares have another name than it would have alone
	Policy   timeslice.Policy
	Fault    string // why it is unhealthy; empty = healthy
	// Cause is the fault behind Fault or Pending where the GPU has one; the zero value is a GPU that does not answer now.
	Cause health.Fault
	// Pending is why a device that works shall get nothing new: its GPU is to be reset. Empty = it may.
	Pending string
	// OnePerContainer refuses a container that asks for more than one share.
	OnePerContainer bool
	// ShareMemory is what the driver holds each share to, in bytes; 0 = to nothing.
	ShareMemory uint64
	// Held says that the device is in use in a way that is no longer offered: it keeps its CDI entry, for containers that start
	// again, and is in no list.
	Held bool
}

// IDs lists under which ids the kubelet sees the device.
func (d Device) IDs() []string {
	if d.Replicas <= 1 {
		return []string{d.UUID}
	}
	ids := make([]string, 0, d.Replicas)
	for _, s := range timeslice.Shares(d.UUID, d.Replicas) {
		ids = append(ids, s.String())
	}
	return ids
}

// Listed is one entry of the list that the kubelet gets for a resource.
type Listed struct {
	ID     string
	NUMA   int     // -1 = unknown
	Fault  string  // empty = healthy
	Device *Device // nil for an id that is allocated and no longer offered
}

// View is what is offered at one moment. It is a value: nothing in it changes after it was published.
type View struct {
	Generation uint64
	Node       devices.Node
	Targets    []Target
	Devices    []Device
	Lists      map[string][]Listed // by resource name
	Problems   []Problem
	Ways       []Way // in which the GPUs are to be offered
	// Unseen says that this process does not know which GPUs there are: none in the view does not mean none on the node.
	Unseen     bool
	ConfigHash string
	MIGConfig  MIGConfig
	// Labels are those of the Node, as they were read last.
	Labels map[string]string
	// chooser knows the links of the whole GPUs, by UUID; nil where nobody is to choose.
	chooser *topology.Chooser
	// Free counts the healthy ids of each list that nobody holds.
	Free map[string]int
	// Changes are the last changes of health.
	Changes []HealthChange
	// MemoryLimit says whether shares are held to their part of the memory; "" = no policy asks for it.
	MemoryLimit MemoryLimit
}

// Device finds a device by its DRA name. A GPU that is lost and one that works may have one name, see namesOf: then the one that
// works is meant.
func (v *View) Device(name string) (found Device, ok bool) {
	for _, d := range v.Devices {
		if d.Name == name && (!ok || found.Fault != "") {
			found, ok = d, true
		}
	}
	return found, ok
}

// Resources lists the resource names, in order.
func (v *View) Resources() []string { return slices.Sorted(maps.Keys(v.Lists)) }

// build makes the view out of what was read and compiled. It is pure.
func build(c Config, apis []API, targets []Target, n devices.Node, u Usage) View {
	v := View{Node: n, Targets: targets, Lists: map[string][]Listed{}, MIGConfig: c.MIGConfig, Problems: slices.Clone(c.Problems)}
	offers, problems := offeringsOf(c, apis, targets, u.Claims)
	v.Ways, v.Problems = waysOf(targets, offers), append(v.Problems, problems...)
	for i, t := range targets {
		v.Problems = append(v.Problems, t.Problems...)
		for _, d := range offers[i].devices {
			if blocked := standsInTheWay(t, d, u); blocked != nil {
				v.Problems = append(v.Problems, *blocked)
				d.API = heldBy(t.GPU, u)
				d.Held = d.API == DevicePlugin
				if d.API == DRA && !u.claimHolds(d) {
					continue // what no claim holds leaves DRA at once, or the GPU would never become idle
				}
			}
			d.ShareMemory = shareMemory(t, d)
			v.Devices = append(v.Devices, d)
			if d.API == DevicePlugin && !d.Held {
				v.list(d)
			}
		}
	}
	v.retain(u)
	v.count(u)
	v.Problems = sortProblems(append(v.Problems, splitResources(v.Devices)...))
	return v
}

// splitResources reports names that both APIs offer on this node: the scheduler serves such a name through the device plugin
// only, so that the other devices can be had by claims alone.
func splitResources(all []Device) []Problem {
	names := map[API]map[string]bool{DevicePlugin: {}, DRA: {}}
	for _, d := range all {
		if offered := names[d.API]; offered != nil {
			offered[d.Resource] = true
		}
	}
	problems := []Problem{}
	for name := range names[DevicePlugin] {
		if names[DRA][name] {
			problems = append(problems, Problem{Reason: ReasonSplitResource, Message: name +
				" is offered by the device plugin on some GPUs of this node and by DRA on others; pods that ask for it by name get the former, the latter are for claims"})
		}
	}
	return problems
}

// standsInTheWay says why a device cannot be offered in its new way yet: somebody holds it in another (P1).
func standsInTheWay(t Target, d Device, u Usage) *Problem {
	blocked := func(format string, args ...any) *Problem {
		return &Problem{GPU: t.GPU.Name(), Reason: ReasonBlocked, Message: fmt.Sprintf(format, args...)}
	}
	if d.API != DRA {
		if holders := u.claimHolders(t.GPU.UUID); len(holders) > 0 {
			return blocked("%s stays with DRA: in use by %s", d.Name, strings.Join(holders, ", "))
		}
	}
	for _, a := range u.allocationsOn(t.GPU) {
		_, isShare := timeslice.ParseShare(a.ID)
		switch mine := timeslice.DeviceOf(a.ID) == d.UUID; {
		case d.API == DRA:
			return blocked("%s stays with the device plugin: %s in use by %s", d.Name, a.ID, a.Holder)
		case mine && d.API == "":
			return blocked("%s is held as %s by %s and will not be offered afterwards", d.Name, a.Resource, a.Holder)
		case mine && (a.Resource != d.Resource || isShare != (d.Replicas > 1)):
			return blocked("%s is held as %s by %s and will be %s afterwards", d.Name, a.Resource, a.Holder, d.Resource)
		}
	}
	return nil
}

// heldBy says which API the present holders of a GPU came through.
func heldBy(g devices.GPU, u Usage) API {
	if len(u.claimHolders(g.UUID)) > 0 {
		return DRA
	}
	return DevicePlugin
}

func (v *View) list(d Device) {
	for _, id := range d.IDs() {
		v.Lists[d.Resource] = append(v.Lists[d.Resource], Listed{ID: id, NUMA: d.GPU.NUMA, Fault: d.Fault, Device: &d})
	}
}

// retain keeps allocated ids in their lists although they are no longer offered: the kubelet would call a missing one healthy.
func (v *View) retain(u Usage) {
	ours := slices.Concat(v.Resources(), u.Before.Resources)
	for _, a := range u.Allocations {
		listed := slices.ContainsFunc(v.Lists[a.Resource], func(l Listed) bool { return l.ID == a.ID })
		if listed || !isOurs(a, ours) {
			continue
		}
		v.Lists[a.Resource] = append(v.Lists[a.Resource], Listed{ID: a.ID, NUMA: -1, Fault: "no longer offered, in use by " + a.Holder})
	}
}

// count counts what is free, device by device, so that nobody has to subtract what is held from what is healthy.
func (v *View) count(u Usage) {
	v.Free = map[string]int{}
	for resource, list := range v.Lists {
		held := map[string]bool{}
		for _, a := range u.Allocations {
			held[a.ID] = held[a.ID] || a.Resource == resource
		}
		v.Free[resource] = 0
		for _, l := range list {
			if l.Fault == "" && !held[l.ID] {
				v.Free[resource]++
			}
		}
	}
}

// isOurs tells our allocations from those of other device plugins: by the exact resource name, which we offer or once did,
// and by the form of the id.
func isOurs(a kubelet.Allocation, resources []string) bool {
	return slices.Contains(resources, a.Resource) && (strings.HasPrefix(a.ID, "GPU-") || strings.HasPrefix(a.ID, "MIG-"))
}
