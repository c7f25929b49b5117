// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package command

import (
	"gpuslice/internal/agent"
)

// Status is the document of /status. Keys are only ever added.
type Status struct {
	// Verified says that the layout of the node was verified once; before that nothing is offered.
	Verified   bool             `json:"verified"`
	Generation uint64           `json:"generation"`
	ConfigHash string           `json:"configHash,omitempty"`
	GPUs       []StatusGPU      `json:"gpus"`
	Resources  []StatusResource `json:"resources"`
	Claims     []string         `json:"claims"`
	Problems   []agent.Problem  `json:"problems"`
	// MemoryLimit is none or enforced where a layout has memory: share.
	MemoryLimit string `json:"memoryLimit,omitempty"`
}

// StatusGPU is one GPU of a Status.
type StatusGPU struct {
	InventoryGPU
	Name    string         `json:"name"`
	Layout  string         `json:"layout,omitempty"`
	Devices []StatusDevice `json:"devices"`
	Plan    []string       `json:"plan"`
	Reasons []PlanReason   `json:"reasons"` // of the steps of the plan that do not follow from the layout alone
	Blocked []string       `json:"blocked"` // what stands in the plan's way, with its holders
}

// StatusDevice is what one device is offered as.
type StatusDevice struct {
	Name     string `json:"name"`
	UUID     string `json:"uuid"`
	API      string `json:"api,omitempty"`
	Resource string `json:"resource"`
	Replicas int    `json:"replicas"`
	Fault    string `json:"fault,omitempty"`
	Pending  string `json:"pending,omitempty"` // why it gets nothing new although it works
	// ShareMemoryMiB is what the driver holds each share to; absent where nothing holds it.
	ShareMemoryMiB uint64 `json:"shareMemoryMiB,omitempty"`
}

// StatusResource counts the entries of one resource's list.
type StatusResource struct {
	Name      string `json:"name"`
	Healthy   int    `json:"healthy"`
	Unhealthy int    `json:"unhealthy"`
	Free      int    `json:"free"` // healthy, and nobody holds it
}

// reasonWaiting is what /status says before the agent has decided anything.
const reasonWaiting agent.Reason = "Waiting"

func emptyStatus() Status {
	return Status{GPUs: []StatusGPU{}, Resources: []StatusResource{}, Claims: []string{}, Problems: []agent.Problem{}}
}

func statusOf(a *agent.Agent) Status {
	view, _ := a.View()
	s := emptyStatus()
	for uid, c := range a.Claims() {
		s.Claims = append(s.Claims, uid+" "+c.String())
	}
	if view == nil {
		if waiting := a.Waiting(); waiting != "" {
			s.Problems = append(s.Problems, agent.Problem{Reason: reasonWaiting, Message: waiting})
		}
		return s
	}
	s.Verified, s.Generation, s.ConfigHash = true, view.Generation, view.ConfigHash
	s.MemoryLimit = string(view.MemoryLimit)
	s.Problems = append(s.Problems, view.Problems...)
	for i, g := range inventoryOf(view.Node).GPUs {
		s.GPUs = append(s.GPUs, gpuStatus(view, view.Node.GPUs[i].Name(), g))
	}
	for _, name := range view.Resources() {
		r := StatusResource{Name: name, Free: view.Free[name]}
		for _, l := range view.Lists[name] {
			if l.Fault == "" {
				r.Healthy++
			} else {
				r.Unhealthy++
			}
		}
		s.Resources = append(s.Resources, r)
	}
	return s
}

func gpuStatus(view *agent.View, name string, g InventoryGPU) StatusGPU {
	x := StatusGPU{InventoryGPU: g, Name: name, Devices: []StatusDevice{}, Plan: []string{}, Reasons: []PlanReason{}, Blocked: []string{}}
	for _, t := range view.Targets {
		if t.GPU.PCI == g.PCI {
			x.Layout = t.Policy.LayoutName
			x.Plan, x.Reasons, x.Blocked = texts(t.Plan.Steps), reasonsOf(t.Plan), texts(t.Plan.Blocked)
		}
	}
	for _, d := range view.Devices {
		if d.GPU.PCI == g.PCI {
			x.Devices = append(x.Devices, StatusDevice{
				Name: d.Name, UUID: d.UUID, API: string(d.API), Resource: d.Resource, Replicas: d.Replicas, Fault: d.Fault, Pending: d.Pending, ShareMemoryMiB: d.ShareMemory >> 20,
			})
		}
	}
	return x
}
