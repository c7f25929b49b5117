// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package daemon

import (
	"gpuslice/pkg/devices"
	"gpuslice/test/simdriver/abi"
)

var processCalls = map[string]handler{
	"nvmlDeviceGetComputeRunningProcesses":       processes(devices.ComputeProcess, processV1),
	"nvmlDeviceGetComputeRunningProcesses_v2":    processes(devices.ComputeProcess, processV2),
	"nvmlDeviceGetComputeRunningProcesses_v3":    processes(devices.ComputeProcess, processV2),
	"nvmlDeviceGetGraphicsRunningProcesses":      processes(devices.GraphicsProcess, processV1),
	"nvmlDeviceGetGraphicsRunningProcesses_v2":   processes(devices.GraphicsProcess, processV2),
	"nvmlDeviceGetGraphicsRunningProcesses_v3":   processes(devices.GraphicsProcess, processV2),
	"nvmlDeviceGetMPSComputeRunningProcesses":    processes(devices.MPSProcess, processV1),
	"nvmlDeviceGetMPSComputeRunningProcesses_v2": processes(devices.MPSProcess, processV2),
	"nvmlDeviceGetMPSComputeRunningProcesses_v3": processes(devices.MPSProcess, processV2),
}

func processV1(p devices.Process) any {
	return abi.ProcessV1{PID: uint32(p.PID), MemoryBytes: p.MemoryBytes}
}

func processV2(p devices.Process) any {
	return abi.Process{PID: uint32(p.PID), MemoryBytes: p.MemoryBytes, GI: instanceID(p.GI), CI: instanceID(p.CI)}
}

func instanceID(id int) uint32 {
	if id == devices.NoInstance {
		return abi.NoInstance
	}
	return uint32(id)
}

// processes answers one of the driver's lists, with numbers of the caller's PID namespace. Of a list that is longer than the
// caller's array only its length comes back.
func processes(kind devices.ProcessKind, layout func(devices.Process) any) handler {
	return func(r *request) error {
		d, h, _, err := r.onDevice()
		if err != nil {
			return err
		}
		all, err := d.Processes(h, kind)
		if err != nil {
			return err
		}
		room := r.in.Uint32()
		r.putUint32(len(all))
		if uint64(len(all)) > uint64(room) {
			return devices.ErrInsufficientSize
		}
		var list []byte
		for _, p := range all {
			p.PID = pidInside(p.PID, depth(r.namespace))
			list = append(list, abi.Bytes(layout(p))...)
		}
		r.out.Put(list)
		return nil
	}
}
