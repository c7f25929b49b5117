// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package daemon

import (
	"fmt"
	"slices"
	"strings"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
	"gpuslice/test/simdriver/driverroot"
)

var findCalls = map[string]handler{
	"nvmlDeviceGetCount":               countGPUs,
	"nvmlDeviceGetCount_v2":            countGPUs,
	"nvmlDeviceGetHandleByIndex":       byIndex,
	"nvmlDeviceGetHandleByIndex_v2":    byIndex,
	"nvmlDeviceGetHandleByUUID":        byUUID,
	"nvmlDeviceGetHandleByPciBusId":    byBusID,
	"nvmlDeviceGetHandleByPciBusId_v2": byBusID,
	"nvmlDeviceGetIndex":               indexOf,

	"nvmlDeviceGetMigDeviceHandleByIndex":          migByIndex,
	"nvmlDeviceGetDeviceHandleFromMigDeviceHandle": parentOf,
}

func countGPUs(r *request) error {
	d, err := r.session()
	if err != nil {
		return err
	}
	n, err := d.GPUCount()
	if sight := r.sight(); !sight.everything() {
		n = len(sight.visible)
	}
	r.putUint32(n)
	return err
}

func byIndex(r *request) error {
	d, err := r.session()
	if err != nil {
		return err
	}
	sight, index := r.sight(), int(r.in.Uint32())
	if !sight.everything() {
		if index >= len(sight.visible) {
			return devices.ErrInvalidArgument
		}
		index = sight.visible[index]
	}
	h, err := d.GPUByIndex(index)
	if err != nil {
		return err
	}
	r.putDevice(h, onGPU(sight.number(index)))
	return nil
}

func byBusID(r *request) error {
	d, err := r.session()
	if err != nil {
		return err
	}
	id := r.in.Text()
	g, found := find(r.daemon.node.Machine.GPUs(), func(g sim.GPU) bool { return sameBusID(g.BusID, id) })
	if found && !r.sight().sees(g.Number) {
		return devices.ErrNotFound
	}
	h, err := d.GPUByBusID(id)
	if err != nil {
		return err
	}
	r.putDevice(h, onGPU(g.Number))
	return nil
}

// sameBusID compares a full bus id with one that may have a short domain or lower case.
func sameBusID(full, id string) bool {
	domain, rest, _ := strings.Cut(strings.ToUpper(id), ":")
	return full == fmt.Sprintf("%08s:%s", domain, rest)
}

func byUUID(r *request) error {
	d, err := r.session()
	if err != nil {
		return err
	}
	uuid := r.in.Text()
	at := r.daemon.placeOf(uuid)
	if at.number != devices.NoInstance {
		visible, err := r.mayUse(at)
		if err != nil || !visible {
			return orNotFound(err)
		}
	}
	h, err := d.GPUByUUID(uuid)
	if err != nil {
		return err
	}
	r.putDevice(h, at)
	return nil
}

func orNotFound(err error) error {
	if err != nil {
		return err
	}
	return devices.ErrNotFound
}

// placeOf finds the GPU or MIG device of a UUID.
func (d *Daemon) placeOf(uuid string) place {
	for _, g := range d.node.Machine.GPUs() {
		if g.UUID == uuid {
			return onGPU(g.Number)
		}
		if i, ok := find(migDevices(g), func(i sim.Instance) bool { return i.UUID == uuid }); ok {
			return place{number: g.Number, mig: true, gi: i.GI, ci: i.CI}
		}
	}
	return onGPU(devices.NoInstance)
}

// mayUse says whether the process may open the nodes of a GPU, and of the instances of a MIG device.
func (r *request) mayUse(at place) (bool, error) {
	if !r.sight().sees(at.number) {
		return false, nil
	}
	if !at.mig {
		return true, nil
	}
	g, err := r.daemon.gpu(at.number)
	if err != nil {
		return false, err
	}
	visible, err := r.visibleMIG(g)
	return slices.ContainsFunc(visible, func(i int) bool {
		m := migDevices(g)[i]
		return m.GI == at.gi && m.CI == at.ci
	}), err
}

// visibleMIG lists which MIG devices of a GPU the process may open, by their index on the machine.
func (r *request) visibleMIG(g sim.GPU) ([]int, error) {
	var names []string
	all := migDevices(g)
	for _, i := range all {
		names = append(names, capNode(g, i.GI, devices.NoInstance), capNode(g, i.GI, i.CI))
	}
	answers, err := r.openNodes(names...)
	if err != nil {
		return nil, err
	}
	var visible []int
	for index, i := range all {
		if usable(answers[capNode(g, i.GI, devices.NoInstance)]) && usable(answers[capNode(g, i.GI, i.CI)]) {
			visible = append(visible, index)
		}
	}
	return visible, nil
}

func capNode(g sim.GPU, gi, ci int) string {
	return driverroot.CapNode(driverroot.CapMinor(g.Minor, gi, ci))
}

// indexOf is the index among what the process sees.
func indexOf(r *request) error {
	d, h, at, err := r.onDevice()
	if err != nil {
		return err
	}
	index, err := d.Index(h)
	if err != nil {
		return err
	}
	visible := r.sight().visible
	if at.mig {
		g, err := r.daemon.gpu(at.number)
		if err != nil {
			return err
		}
		if visible, err = r.visibleMIG(g); err != nil {
			return err
		}
	}
	r.putUint32(slices.Index(visible, index))
	return nil
}

func migByIndex(r *request) error {
	d, gpu, at, err := r.onDevice()
	if err != nil {
		return err
	}
	g, err := r.daemon.gpu(at.number)
	if err != nil {
		return err
	}
	visible, err := r.visibleMIG(g)
	if err != nil {
		return err
	}
	all, index := migDevices(g), int(r.in.Uint32())
	if len(visible) < len(all) && index < len(all) {
		if index >= len(visible) {
			return devices.ErrNotFound
		}
		index = visible[index]
	}
	h, err := d.MIGDevice(gpu, index)
	if err != nil {
		return err
	}
	found := place{number: at.number, mig: true, gi: devices.NoInstance, ci: devices.NoInstance}
	if index < len(all) {
		found.gi, found.ci = all[index].GI, all[index].CI
	}
	r.putDevice(h, found)
	return nil
}

func parentOf(r *request) error {
	_, at, err := r.device()
	if err != nil {
		return err
	}
	if !at.mig {
		return devices.ErrInvalidArgument
	}
	h, err := r.openGPU(at.number)
	if err != nil {
		return err
	}
	r.putDevice(h, onGPU(at.number))
	return nil
}
