// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package daemon

import (
	"gpuslice/pkg/devices"
	"gpuslice/test/simdriver/abi"
)

var linkCalls = map[string]handler{
	"nvmlDeviceGetTopologyCommonAncestor": commonAncestor,
	"nvmlDeviceGetNvLinkState":            nvlinkState,
	"nvmlDeviceGetNvLinkRemotePciInfo":    nvlinkPCIInfo,
	"nvmlDeviceGetNvLinkRemotePciInfo_v2": nvlinkPCIInfo,
	"nvmlDeviceGetNvLinkRemoteDeviceType": nvlinkEnd,
}

func commonAncestor(r *request) error {
	d, first, _, err := r.onDevice()
	if err != nil {
		return err
	}
	second, _, err := r.device()
	if err != nil {
		return err
	}
	level, err := d.CommonAncestor(first, second)
	r.putUint32(level)
	return err
}

// onNVLink is the session, and the GPU and the number of the link that come next.
func (r *request) onNVLink() (d devices.Driver, h devices.GPUHandle, link int, err error) {
	d, h, _, err = r.onDevice()
	return d, h, int(r.in.Uint32()), err
}

func nvlinkState(r *request) error {
	d, h, link, err := r.onNVLink()
	if err != nil {
		return err
	}
	active, err := d.NVLinkActive(h, link)
	r.putUint32(asNumber(active))
	return err
}

func nvlinkEnd(r *request) error {
	d, h, link, err := r.onNVLink()
	if err != nil {
		return err
	}
	end, err := d.NVLinkEnd(h, link)
	r.putUint32(int(end))
	return err
}

// nvlinkPCIInfo answers the address at the other end, without the ids of what is there.
func nvlinkPCIInfo(r *request) error {
	d, h, link, err := r.onNVLink()
	if err != nil {
		return err
	}
	busID, err := d.NVLinkBusID(h, link)
	if err != nil {
		return err
	}
	return r.putPCI(busID, abi.PCIInfo{})
}
