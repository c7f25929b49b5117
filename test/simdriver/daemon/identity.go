// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package daemon

import (
	"fmt"

	"gpuslice/pkg/devices"
	"gpuslice/test/simdriver/abi"
)

var identityCalls = map[string]handler{
	"nvmlDeviceGetMinorNumber":           number(devices.Driver.Minor),
	"nvmlDeviceGetBrand":                 number(devices.Driver.Brand),
	"nvmlDeviceGetArchitecture":          number(devices.Driver.Architecture),
	"nvmlDeviceGetVirtualizationMode":    number(devices.Driver.VirtualizationMode),
	"nvmlDeviceGetUUID":                  name(devices.Driver.UUID),
	"nvmlDeviceGetName":                  name(devices.Driver.Name),
	"nvmlDeviceGetCudaComputeCapability": computeCapability,
	"nvmlDeviceGetPciInfo":               pciInfo,
	"nvmlDeviceGetPciInfo_v2":            pciInfo,
	"nvmlDeviceGetPciInfo_v3":            pciInfo,
}

// number answers a property that is a number.
func number(get func(devices.Driver, devices.GPUHandle) (int, error)) handler {
	return func(r *request) error {
		d, h, _, err := r.onDevice()
		if err != nil {
			return err
		}
		v, err := get(d, h)
		r.putUint32(v)
		return err
	}
}

// name answers a property that is a string.
func name(get func(devices.Driver, devices.GPUHandle) (string, error)) handler {
	return func(r *request) error {
		d, h, _, err := r.onDevice()
		if err != nil {
			return err
		}
		v, err := get(d, h)
		if err != nil {
			return err
		}
		return r.putText(v, r.in.Uint32())
	}
}

func computeCapability(r *request) error {
	d, h, _, err := r.onDevice()
	if err != nil {
		return err
	}
	major, minor, err := d.ComputeCapability(h)
	r.putUint32(major)
	r.putUint32(minor)
	return err
}

// pciInfo has the bus id in two widths.
func pciInfo(r *request) error {
	d, h, at, err := r.onDevice()
	if err != nil {
		return err
	}
	busID, err := d.BusID(h)
	if err != nil {
		return err
	}
	g, err := r.daemon.gpu(at.number)
	if err != nil {
		return err
	}
	return r.putPCI(busID, abi.PCIInfo{DeviceID: g.PCIDeviceID, SubsystemID: g.PCISubsystem})
}

// putPCI answers the address of a thing whose ids are given.
func (r *request) putPCI(busID string, info abi.PCIInfo) error {
	if _, err := fmt.Sscanf(busID, "%X:%X:%X.0", &info.Domain, &info.Bus, &info.Device); err != nil {
		return fmt.Errorf("bus id %q: %w", busID, err)
	}
	abi.SetText(info.BusID[:], busID)
	abi.SetText(info.BusIDLegacy[:], fmt.Sprintf("%04X:%02X:%02X.0", info.Domain, info.Bus, info.Device))
	r.put(info)
	return nil
}
