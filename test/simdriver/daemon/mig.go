// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package daemon

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
	"gpuslice/test/simdriver/abi"
)

var migCalls = map[string]handler{
	"nvmlDeviceIsMigDeviceHandle":    isMIG,
	"nvmlDeviceGetGpuInstanceId":     instanceIDs(func(gi, _ int) int { return gi }),
	"nvmlDeviceGetComputeInstanceId": instanceIDs(func(_, ci int) int { return ci }),
	"nvmlDeviceGetMaxMigDeviceCount": number(devices.Driver.MaxMIGDevices),
	"nvmlDeviceGetAttributes":        attributes,
	"nvmlDeviceGetAttributes_v2":     attributes,
	"nvmlDeviceGetMigMode":           migMode,
	"nvmlDeviceSetMigMode":           setMIGMode,
}

func isMIG(r *request) error {
	_, _, at, err := r.onDevice()
	is := 0
	if at.mig {
		is = 1
	}
	r.putUint32(is)
	return err
}

func instanceIDs(which func(gi, ci int) int) handler {
	return func(r *request) error {
		d, h, _, err := r.onDevice()
		if err != nil {
			return err
		}
		gi, ci, err := d.MIGDeviceIDs(h)
		r.putUint32(which(gi, ci))
		return err
	}
}

func migMode(r *request) error {
	d, h, _, err := r.onDevice()
	if err != nil {
		return err
	}
	current, pending, err := d.MIGMode(h)
	r.putUint32(asNumber(current))
	r.putUint32(asNumber(pending))
	return err
}

func asNumber(on bool) int {
	if on {
		return 1
	}
	return 0
}

// setMIGMode answers the activation status as an output, whatever it is.
func setMIGMode(r *request) error {
	d, h, _, err := r.onDevice()
	if err != nil {
		return err
	}
	mode := r.in.Uint32()
	if mode > 1 {
		return devices.ErrInvalidArgument
	}
	activation, err := d.SetMIGMode(h, mode == 1)
	r.put(codeOf(activation))
	return err
}

// attributes of a MIG device come from the profile of its GPU instance and from how that is divided.
func attributes(r *request) error {
	d, h, at, err := r.onDevice()
	if err != nil {
		return err
	}
	if !at.mig {
		return devices.ErrInvalidArgument
	}
	memory, err := d.Memory(h)
	if err != nil {
		return err
	}
	p, slices, err := r.daemon.describe(at)
	if err != nil {
		return err
	}
	a := abi.Attributes{Engines: enginesOf(p), GISlices: uint32(p.Slices), CISlices: uint32(slices), MemoryMiB: memory >> 20}
	a.SMs = share(p.SMs, slices, p.Slices)
	r.put(a)
	return nil
}

// share is what a compute instance of some slices gets of its GPU instance.
func share(all, slices, of int) uint32 { return uint32(all * slices / max(of, 1)) }

func enginesOf(p devices.GIProfile) abi.Engines {
	return abi.Engines{
		SMs: uint32(p.SMs), CopyEngines: uint32(p.CopyEngines), Decoders: uint32(p.Decoders),
		Encoders: uint32(p.Encoders), JPEGs: uint32(p.JPEGs), OFAs: uint32(p.OFAs),
	}
}

// describe finds the profile of a MIG device's GPU instance, and the compute slices of its compute instance.
func (d *Daemon) describe(at place) (p devices.GIProfile, slices int, err error) {
	g, err := d.gpu(at.number)
	if err != nil {
		return p, 0, err
	}
	i, ok := find(g.Instances, func(i sim.Instance) bool { return i.GI == at.gi && i.CI == at.ci })
	if !ok {
		return p, 0, devices.ErrNotFound
	}
	profile, _, _ := strings.Cut(i.Slot, "@")
	p, ok = find(d.node.data.profiles[at.number], func(p devices.GIProfile) bool { return p.Name == profile })
	if !ok {
		return p, 0, devices.ErrUnknown
	}
	sizes := dividedSlot(d.node.Machine.Dump(), g.Index, i.Slot)
	rank := rankOf(g, i)
	if rank < len(sizes) {
		return p, sizes[rank], nil
	}
	return p, p.Slices, nil
}

// rankOf is the position of a compute instance among those of its GPU instance.
func rankOf(g sim.GPU, i sim.Instance) int {
	siblings := slices.DeleteFunc(migDevices(g), func(o sim.Instance) bool { return o.GI != i.GI })
	return slices.IndexFunc(siblings, func(o sim.Instance) bool { return o.CI == i.CI })
}

// dividedSlot reads from the notation of Dump into which slices a GPU instance is divided: "2g.20gb@0{1c 1c}". The empty
// answer says that one compute instance fills it.
func dividedSlot(dump string, index int, slot string) []int {
	lines := strings.Split(dump, "\n")
	if index >= len(lines) {
		return nil
	}
	match := regexp.MustCompile(regexp.QuoteMeta(slot) + `\{([^}]*)\}`).FindStringSubmatch(lines[index])
	if match == nil {
		return nil
	}
	var sizes []int
	for word := range strings.FieldsSeq(match[1]) {
		size, err := strconv.Atoi(strings.TrimSuffix(word, "c"))
		if err != nil {
			return nil
		}
		sizes = append(sizes, size)
	}
	return sizes
}

// isAbsent says that a profile is none of this GPU's.
func isAbsent(err error) bool {
	return errors.Is(err, devices.ErrNotSupported) || errors.Is(err, devices.ErrInvalidArgument)
}
