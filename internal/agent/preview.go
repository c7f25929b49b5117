// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"slices"
	"strings"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/mig"
)

// Preview is the view that a node will have once every plan that can run now has run, as far as it can be told beforehand:
// an instance that is still to be made has no UUID, because the driver gives it one, and there are no lists. It is pure.
func Preview(c Config, opts Options, labels map[string]string, n devices.Node, u Usage) View {
	targets := Compile(c, opts.NodeName, labels, n, u)
	for i, t := range targets {
		if t.Plan.Runnable() && !Paused(c, opts.NodeName, labels) {
			targets[i].GPU.MIG = after(t.GPU.MIG, t.Plan)
		}
	}
	v := build(c, opts.APIs, targets, n, u)
	v.Lists = nil
	for i, d := range v.Devices {
		if strings.HasPrefix(d.UUID, toBeMade) {
			v.Devices[i].UUID, v.Devices[i].Instance.UUID = "", ""
		}
	}
	return v
}

// toBeMade stands where the driver's UUID will stand.
const toBeMade = "to be made: "

// after is how a GPU is cut when every step of a plan succeeded.
func after(s mig.State, p mig.Plan) mig.State {
	s.Instances = slices.Clone(s.Instances)
	for _, step := range p.Steps {
		switch step := step.(type) {
		case mig.SetMode:
			s.Mode = mig.Mode{Current: step.On, Pending: step.On}
		case mig.Destroy:
			s.Instances = slices.DeleteFunc(s.Instances, func(i mig.Instance) bool { return i.GI == step.Instance.GI })
		case mig.Create:
			s.Instances = append(s.Instances, mig.Instance{Slot: step.Slot, GI: devices.NoInstance, UUID: toBeMade + step.Slot.String()})
		}
	}
	return s
}
