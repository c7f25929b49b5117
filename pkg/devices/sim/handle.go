// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"maps"
	"slices"

	"gpuslice/pkg/devices"
)

type refKind int

const (
	gpuRef refKind = iota + 1
	giRef
	ciRef
	migRef
)

// ref is what a handle names. Handles are numbers that are never used twice on a machine.
type ref struct {
	kind refKind
	gpu  *gpu
	gi   *gpuInstance
	ci   *computeInstance
}

// alive says whether the thing still exists.
func (r ref) alive() bool {
	return (r.gi == nil || slices.Contains(r.gpu.gis, r.gi)) && (r.ci == nil || slices.Contains(r.gi.cis, r.ci))
}

// handle gives the number that names a thing in this session, always the same one.
func (s *session) handle(r ref) uint64 {
	if n, ok := s.numbers[r]; ok {
		return n
	}
	s.machine.lastHandle++
	n := s.machine.lastHandle
	s.numbers[r], s.handles[n] = n, r
	return n
}

// gpuHandle takes hold of a GPU.
func (s *session) gpuHandle(g *gpu) devices.GPUHandle {
	s.held[g] = true
	return devices.GPUHandle(s.handle(ref{kind: gpuRef, gpu: g}))
}

// migHandle takes hold of a MIG device, and of its GPU.
func (s *session) migHandle(ci *computeInstance) devices.GPUHandle {
	s.held[ci.gi.gpu] = true
	return devices.GPUHandle(s.handle(ref{kind: migRef, gpu: ci.gi.gpu, gi: ci.gi, ci: ci}))
}

// resolve finds what a handle names: ErrNotFound for one that has gone, ErrInvalidArgument for a number that is none of the
// wanted kinds, ErrLost where the GPU does not answer.
func (s *session) resolve(h uint64, kinds ...refKind) (ref, error) {
	r, ok := s.handles[h]
	switch {
	case !ok && h > 0 && h <= s.machine.lastHandle:
		return ref{}, devices.ErrNotFound
	case !ok || !slices.Contains(kinds, r.kind):
		return ref{}, devices.ErrInvalidArgument
	case r.gpu.gone():
		return ref{}, devices.ErrLost
	}
	return r, nil
}

func (s *session) gpuOf(h devices.GPUHandle) (*gpu, error) {
	r, err := s.resolve(uint64(h), gpuRef)
	return r.gpu, err
}

// migCapable resolves a GPU that can be cut.
func (s *session) migCapable(h devices.GPUHandle) (*gpu, error) {
	g, err := s.gpuOf(h)
	if err == nil && !g.model.canMIG() {
		return nil, devices.ErrNotSupported
	}
	return g, err
}

// migEnabled resolves a GPU that is cut, for a client that may look inside.
func (s *session) migEnabled(h devices.GPUHandle) (*gpu, error) {
	g, err := s.migCapable(h)
	switch {
	case err != nil:
		return nil, err
	case !g.mig:
		return nil, devices.ErrNotSupported
	case !s.client.mayConfig():
		return nil, devices.ErrNoPermission
	}
	return g, nil
}

// forgetDead drops the handles of what no longer exists, in every session. The caller holds the lock.
func (m *Machine) forgetDead() {
	for _, s := range m.sessions {
		maps.DeleteFunc(s.handles, func(_ uint64, r ref) bool { return !r.alive() })
		maps.DeleteFunc(s.numbers, func(r ref, _ uint64) bool { return !r.alive() })
	}
}
