// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devicestest

import (
	"errors"

	"gpuslice/pkg/devices"
)

// eager makes every mode active at once: a reset happens behind everybody's back.
type eager struct {
	kind
	modes map[devices.GPUHandle]bool
}

func newEager(_ simNode, k kind) devices.Driver {
	return eager{kind: k, modes: map[devices.GPUHandle]bool{}}
}

func (e eager) SetMIGMode(gpu devices.GPUHandle, on bool) (activation, err error) {
	activation, err = e.Driver.SetMIGMode(gpu, on)
	if errors.Is(activation, devices.ErrResetRequired) {
		_, err := e.Driver.SetMIGMode(gpu, !on)
		e.modes[gpu] = on
		return nil, err
	}
	return activation, err
}

func (e eager) MIGMode(gpu devices.GPUHandle) (current, pending bool, err error) {
	current, pending, err = e.Driver.MIGMode(gpu)
	if on, ok := e.modes[gpu]; ok {
		return on, on, err
	}
	return current, pending, err
}

// shared is one session that several privileged clients believe to be their own.
type shared struct {
	kind
	users *int
}

func shareSession(n simNode) Subject {
	s := n.subject()
	users := 0
	one := kind{n.open(Client{Name: "all"})}
	s.Open = func(c Client) devices.Driver {
		if c.Unprivileged || c.PIDNamespace != "" {
			return n.open(c)
		}
		return shared{kind: one, users: &users}
	}
	return s
}

func (s shared) Init() error {
	*s.users++
	return s.Driver.Init()
}

func (s shared) Shutdown() error {
	if *s.users--; *s.users > 0 {
		return nil
	}
	return s.Driver.Shutdown()
}

// finder looks a UUID up on the GPUs that answer.
type finder struct{ kind }

func newFinder(_ simNode, k kind) devices.Driver { return finder{k} }

func (f finder) GPUByUUID(uuid string) (devices.GPUHandle, error) {
	h, err := f.Driver.GPUByUUID(uuid)
	if !errors.Is(err, devices.ErrLost) {
		return h, err
	}
	count, err := f.GPUCount()
	if err != nil {
		return 0, err
	}
	for i := range count {
		gpu, err := f.GPUByIndex(i)
		if err != nil {
			continue
		}
		if found, err := f.UUID(gpu); err == nil && found == uuid {
			return gpu, nil
		}
	}
	return 0, devices.ErrNotFound
}

// parent reads the memory of a GPU with the privileges of an administrator.
type parent struct {
	kind
	node simNode
}

func showParent(n simNode) Subject {
	s := n.subject()
	s.Open = func(c Client) devices.Driver { return parent{kind: kind{n.open(c)}, node: n} }
	return s
}

func (p parent) Memory(gpu devices.GPUHandle) (uint64, error) {
	total, err := p.Driver.Memory(gpu)
	if !errors.Is(err, devices.ErrNoPermission) {
		return total, err
	}
	busID, err := p.BusID(gpu)
	if err != nil {
		return 0, err
	}
	admin := p.node.open(Client{Name: "admin"})
	if err := admin.Init(); err != nil {
		return 0, err
	}
	same, err := admin.GPUByBusID(busID)
	if err != nil {
		return 0, err
	}
	total, err = admin.Memory(same)
	return total, errors.Join(err, admin.Shutdown())
}
