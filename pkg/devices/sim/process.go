// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"fmt"
	"slices"
	"strings"

	"gpuslice/pkg/devices"
)

// Process is a process that uses a GPU or one compute instance of it.
type Process struct {
	PID         int
	Namespace   string // its PID namespace, as in Client
	Kind        devices.ProcessKind
	MemoryBytes uint64
	GI, CI      int // NoInstance: it uses the GPU as a whole
}

func (p Process) wholeGPU() bool { return p.GI == devices.NoInstance }

// visibleTo says whether the client's PID namespace contains the process.
func (p Process) visibleTo(c Client) bool {
	return c.PIDNamespace == "" || p.Namespace == c.PIDNamespace || strings.HasPrefix(p.Namespace, c.PIDNamespace+"/")
}

// StartProcess lets a process use a GPU; ErrNotFound where the compute instance does not exist.
func (m *Machine) StartProcess(number int, p Process) error {
	return m.onGPU(number, func(g *gpu) error {
		exists := func(ci *computeInstance) bool { return ci.gi.id == p.GI && ci.id == p.CI }
		if !p.wholeGPU() && !slices.ContainsFunc(g.migDevices(), exists) {
			return fmt.Errorf("gpu instance %d, compute instance %d on gpu number %d: %w", p.GI, p.CI, number, devices.ErrNotFound)
		}
		g.processes = append(g.processes, p)
		return nil
	})
}

// StopProcess ends every use that the process makes of the GPU.
func (m *Machine) StopProcess(number, pid int) error {
	return m.onGPU(number, func(g *gpu) error {
		g.processes = slices.DeleteFunc(g.processes, func(p Process) bool { return p.PID == pid })
		return nil
	})
}

// onGPU runs a control under the lock.
func (m *Machine) onGPU(number int, do func(*gpu) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	g, err := m.gpu(number)
	if err != nil {
		return err
	}
	return do(g)
}

// Processes implements devices.ProcessLister. What the caller's PID namespace does not contain is left out; the list of a GPU
// in MIG mode concerns all its instances, so it needs mig/monitor.
func (s *session) Processes(h devices.GPUHandle, kind devices.ProcessKind) ([]devices.Process, error) {
	return ask(s, "Processes", h, func(r ref) ([]devices.Process, error) {
		switch {
		case kind < devices.ComputeProcess || kind > devices.MPSProcess:
			return nil, devices.ErrInvalidArgument
		case r.kind == gpuRef && r.gpu.mig && !s.client.mayMonitor():
			return nil, devices.ErrNoPermission
		}
		var list []devices.Process
		for _, p := range r.gpu.processes {
			inside := r.kind == gpuRef || p.GI == r.gi.id && p.CI == r.ci.id
			if p.Kind == kind && inside && p.visibleTo(s.client) {
				list = append(list, devices.Process{PID: p.PID, MemoryBytes: p.MemoryBytes, GI: p.GI, CI: p.CI})
			}
		}
		return list, nil
	}, gpuRef, migRef)
}
