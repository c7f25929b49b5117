// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build cgo

package nvml

import (
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpuslice/pkg/devices"
)

// allInstances is how nvml.h writes "the GPU as a whole" and "unknown process memory".
const allInstances = ^uint32(0)

func instanceID(id uint32) int {
	if id == allInstances {
		return devices.NoInstance
	}
	return int(id)
}

func (s *session) Processes(h devices.GPUHandle, kind devices.ProcessKind) ([]devices.Process, error) {
	symbol, call := "nvmlDeviceGetComputeRunningProcesses", nvml.Device.GetComputeRunningProcesses
	switch kind {
	case devices.ComputeProcess:
	case devices.GraphicsProcess:
		symbol, call = "nvmlDeviceGetGraphicsRunningProcesses", nvml.Device.GetGraphicsRunningProcesses
	case devices.MPSProcess:
		symbol, call = "nvmlDeviceGetMPSComputeRunningProcesses", nvml.Device.GetMPSComputeRunningProcesses
	}
	list, err := get(s, h, symbol, call)
	if err != nil {
		return nil, err
	}
	all := make([]devices.Process, len(list))
	for i, p := range list {
		all[i] = devices.Process{
			PID: int(p.Pid), MemoryBytes: p.UsedGpuMemory, GI: instanceID(p.GpuInstanceId), CI: instanceID(p.ComputeInstanceId),
		}
	}
	return all, nil
}

func (s *session) EventTypes(h devices.GPUHandle) (uint64, error) {
	return get(s, h, "nvmlDeviceGetSupportedEventTypes", nvml.Device.GetSupportedEventTypes)
}

func (s *session) NewEventSet() (devices.EventSet, error) {
	lib, err := s.library("nvmlEventSetCreate")
	if err != nil {
		return nil, err
	}
	set, ret := lib.EventSetCreate()
	if ret != nvml.SUCCESS {
		return nil, code(ret)
	}
	return &eventSet{session: s, set: set}, nil
}

type eventSet struct {
	session *session
	set     nvml.EventSet
}

func (e *eventSet) Register(h devices.GPUHandle, types uint64) error {
	d, err := e.session.gpu(h, "nvmlDeviceRegisterEvents")
	if err != nil {
		return err
	}
	return code(d.RegisterEvents(types, e.set))
}

func (e *eventSet) Wait(timeout time.Duration) (devices.Event, error) {
	if _, err := e.session.library("nvmlEventSetWait"); err != nil {
		return devices.Event{}, err
	}
	data, ret := e.set.Wait(uint32(max(timeout.Milliseconds(), 0)))
	if ret != nvml.SUCCESS {
		return devices.Event{}, code(ret)
	}
	if _, err := e.session.library("nvmlEventSetWait_v2"); err != nil {
		// The first version of the call knows no instances and leaves their fields as they were.
		data.GpuInstanceId, data.ComputeInstanceId = allInstances, allInstances
	}
	return devices.Event{
		GPU: intern(e.session, &e.session.gpus, data.Device), Type: data.EventType, Data: data.EventData,
		GI: instanceID(data.GpuInstanceId), CI: instanceID(data.ComputeInstanceId),
	}, nil
}

func (e *eventSet) Close() error {
	if _, err := e.session.library("nvmlEventSetFree"); err != nil {
		return err
	}
	return code(e.set.Free())
}
