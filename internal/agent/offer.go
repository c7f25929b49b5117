// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpuslice/internal/config"
	"gpuslice/internal/state"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/health"
	"gpuslice/pkg/mig"
	"gpuslice/pkg/timeslice"
)

// The names of resources that nobody has given another one.
const (
	gpuResource      = "nvidia.com/gpu"
	instanceResource = "nvidia.com/mig-" // and the profile
)

// offering is how the devices of one GPU are handed out.
type offering struct {
	api       API
	whole     string // resource name of the GPU
	instances string // resource name of its instances; "" = one for each profile
	devices   []Device
}

// offeringsOf decides for each target how its devices are handed out. Some decisions concern the GPUs of a node together.
func offeringsOf(c Config, apis []API, targets []Target, claims []state.Claim) ([]offering, []Problem) {
	problems := []Problem{}
	offers := make([]offering, len(targets))
	for i, t := range targets {
		o, problem := offeringOf(c, apis, t)
		if problem != nil {
			problems = append(problems, *problem)
		}
		offers[i] = o
	}
	problems = append(problems, nameInstances(targets, offers)...)
	for i, name := range namesOf(targets, claims) {
		offers[i].devices = devicesOf(targets[i], name, offers[i])
	}
	return offers, append(problems, shareAll(targets, offers)...)
}

// offeringOf decides by policy; an unmanaged GPU goes to the device plugin if that runs here.
func offeringOf(c Config, apis []API, t Target) (offering, *Problem) {
	o := offering{whole: cmp.Or(c.ResourceFor(t.GPU.Product), gpuResource)}
	if l := t.Policy.Layout; l.MIG != nil && l.MIG.Resource != "" {
		o.instances = config.WithDomain(l.MIG.Resource)
	}
	switch serve := t.Policy.Serve; {
	case serve == "none":
	case serve == "":
		if len(apis) > 0 {
			o.api = slices.Min(apis) // "device-plugin" comes before "dra"
		}
	case !slices.Contains(apis, API(serve)):
		return o, &Problem{GPU: t.GPU.Name(), Reason: ReasonNotServed, Message: fmt.Sprintf("serve is %s, this agent runs %v", serve, apis)}
	default:
		o.api = API(serve)
	}
	return o, nil
}

func devicesOf(t Target, name string, o offering) []Device {
	g := t.GPU
	if g.UUID == "" || g.Unsupported != nil {
		return nil
	}
	base := Device{GPU: g, API: o.api, Replicas: 1, Policy: timeslice.Spread}
	if !g.MIG.Mode.Current {
		d := t.judge(base, health.Whole)
		d.UUID, d.Name, d.Resource = g.UUID, name, o.whole
		return []Device{d}
	}
	all := []Device{}
	for _, inst := range g.MIG.Instances {
		if !inst.Usable() {
			continue
		}
		d := t.judge(base, inst.GI)
		d.UUID, d.Name, d.Instance = inst.UUID, slotName(name, inst.Slot), &inst
		d.Resource = cmp.Or(o.instances, instanceResource+inst.Slot.Profile.ResourceSuffix())
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b Device) int {
		return cmp.Or(cmp.Compare(a.Instance.Slot.Start, b.Instance.Slot.Start), cmp.Compare(a.Instance.Slot.Profile.ID, b.Instance.Slot.Profile.ID))
	})
	return all
}

// judge gives a device the health of its GPU or instance. A GPU that does not answer hits all of it, unless none does: then they
// are as they were.
func (t Target) judge(d Device, gi int) Device {
	switch verdict := t.Health.Device(gi); {
	case verdict.Health == health.Unhealthy:
		d.Fault, d.Cause = verdict.Reason, t.Health.Cause(gi)
	case t.GPU.Fault != nil && !t.AccessLost:
		d.Fault = t.GPU.Fault.Error()
	case verdict.Health == health.ResetPending:
		d.Pending, d.Cause = verdict.Reason, t.Health.Cause(gi)
	}
	return d
}

// MIGDeviceName is the name that DRA gives a slot; it is part of the wire format.
func MIGDeviceName(g devices.GPU, s mig.Slot) string { return slotName(g.Name(), s) }

func slotName(gpu string, s mig.Slot) string {
	profile := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		case r == '.':
			return -1
		default:
			return '-'
		}
	}, strings.ToLower(s.Profile.Name))
	return fmt.Sprintf("%s-mig-%s-%d-%d", gpu, strings.Trim(profile, "-"), s.Profile.ID, s.Start)
}
