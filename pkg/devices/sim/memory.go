// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"fmt"
	"os"
	"slices"

	"gpuslice/pkg/devices"
)

// Memory limits. The driver keeps them with the cgroup itself, of which the path is only a name: a folder that is removed takes
// its limits along, and one that is made again has none. Here any folder may stand for a cgroup.

const (
	// limitsSince is the first driver branch with limits.
	limitsSince = 615
	// defaultReserve is the part of the memory that the driver keeps: some 640 MiB of 80 GiB.
	defaultReserve = 128
)

// memoryLimit is what one cgroup may take of one GPU.
type memoryLimit struct {
	path       string // its name when it was set
	cgroup     os.FileInfo
	soft, hard uint64
}

// MemoryLimit is one of the limits that stand, as a control sees it.
type MemoryLimit struct {
	Cgroup     string
	Soft, Hard uint64
}

// MemoryLimits lists the limits of a GPU whose cgroups are there, in the order they were set.
func (m *Machine) MemoryLimits(number int) (list []MemoryLimit, err error) {
	err = m.onGPU(number, func(g *gpu) error {
		g.forgetRemoved()
		for _, l := range g.limits {
			list = append(list, MemoryLimit{Cgroup: l.path, Soft: l.soft, Hard: l.hard})
		}
		return nil
	})
	return list, err
}

// SetMemoryLimit is what somebody else does to a cgroup; hard devices.NoMemoryLimit takes its limits away.
func (m *Machine) SetMemoryLimit(number int, cgroup string, hard uint64) error {
	return m.onGPU(number, func(g *gpu) error { return g.limit(cgroup, 0, hard) })
}

// hasMemoryLimits says whether the driver knows the calls.
func (m *Machine) hasMemoryLimits() error {
	if m.memoryLimits != nil {
		if *m.memoryLimits {
			return nil
		}
		return devices.ErrNotSupported
	}
	if m.branch() < limitsSince {
		return devices.ErrFunctionNotFound
	}
	return nil
}

// limited resolves a GPU of which cgroups can be given limits.
func (s *session) limited(r ref) (*gpu, error) {
	if err := s.machine.hasMemoryLimits(); err != nil {
		return nil, err
	}
	if r.gpu.mig {
		return nil, devices.ErrNotSupported
	}
	return r.gpu, nil
}

// ReservedMemory implements devices.MemoryLimiter.
func (s *session) ReservedMemory(h devices.GPUHandle) (uint64, error) {
	return ask(s, "ReservedMemory", h, func(r ref) (uint64, error) { return r.gpu.reservedMiB << 20, nil }, gpuRef)
}

// SetMemoryLimits implements devices.MemoryLimiter.
func (s *session) SetMemoryLimits(h devices.GPUHandle, cgroup string, soft, hard uint64) error {
	op := operation{name: "SetMemoryLimits", where: s.on(h), changes: true, slot: func() string { return fmt.Sprintf("%s=%d", cgroup, hard) }}
	return s.run(op, func() error {
		r, err := s.resolve(uint64(h), gpuRef)
		if err != nil {
			return err
		}
		g, err := s.limited(r)
		switch {
		case err != nil:
			return err
		case !s.client.Root:
			return devices.ErrNoPermission
		}
		return g.limit(cgroup, soft, hard)
	})
}

// limit sets the limits of a cgroup, or takes them away.
func (g *gpu) limit(path string, soft, hard uint64) error {
	folder, err := os.Stat(path)
	total := g.model.memoryMiB << 20
	switch {
	case err != nil || !folder.IsDir():
		return devices.ErrOperatingSystem
	case soft > hard, soft > total, hard > total && hard != devices.NoMemoryLimit:
		return devices.ErrInvalidArgument
	}
	g.limits = slices.DeleteFunc(g.limits, func(l memoryLimit) bool { return os.SameFile(l.cgroup, folder) })
	if soft > 0 || hard != devices.NoMemoryLimit {
		g.limits = append(g.limits, memoryLimit{path: path, cgroup: folder, soft: soft, hard: hard})
	}
	return nil
}

// MemoryLimits implements devices.MemoryLimiter. Nobody's memory is counted.
func (s *session) MemoryLimits(h devices.GPUHandle, cgroup string) (devices.MemoryLimits, error) {
	return ask(s, "MemoryLimits", h, func(r ref) (devices.MemoryLimits, error) {
		g, err := s.limited(r)
		if err != nil {
			return devices.MemoryLimits{}, err
		}
		folder, err := os.Stat(cgroup)
		if err != nil || !folder.IsDir() {
			return devices.MemoryLimits{}, devices.ErrOperatingSystem
		}
		g.forgetRemoved()
		l, ok := find(g.limits, func(l memoryLimit) bool { return os.SameFile(l.cgroup, folder) })
		if !ok {
			return devices.MemoryLimits{}, devices.ErrNotFound
		}
		return devices.MemoryLimits{Soft: l.soft, Hard: l.hard}, nil
	}, gpuRef)
}

// forgetRemoved drops the limits of cgroups that are gone.
func (g *gpu) forgetRemoved() {
	g.limits = slices.DeleteFunc(g.limits, func(l memoryLimit) bool {
		folder, err := os.Stat(l.path)
		return err != nil || !os.SameFile(l.cgroup, folder)
	})
}
