// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devicestest

import (
	"errors"
	"fmt"
	"time"

	"gpuslice/pkg/devices"
)

var processLines = []line{
	{"a process keeps its compute instance", processKeepsCI},
	{"processes outside the caller's PID namespace are left out", namespaceFilters},
}

var lostLines = []line{
	{"a lost GPU is lost alone", lostAlone},
	{"look-ups by UUID fail while a GPU is lost", uuidFailsWhileLost},
}

var eventLines = []line{
	{"events arrive in order with their instance", eventsInOrder},
	{"waiting on a lost GPU says so", waitSaysLost},
}

var errNoControls = skip("nobody can make it happen here")

// busy is a GPU with an instance on which a process of the host runs.
func (b *bench) busy() (target, instance, error) {
	if b.Controls == nil {
		return target{}, instance{}, errNoControls
	}
	t, err := b.cut()
	if err != nil {
		return target{}, instance{}, err
	}
	made, err := t.carveSmall()
	if err != nil {
		return target{}, instance{}, err
	}
	p := devices.Process{PID: 4711, MemoryBytes: 1 << 20, GI: made.info.ID, CI: made.ciInfo.ID}
	if err := b.Controls.StartProcess(t.busID, "", p); err != nil {
		return target{}, instance{}, fmt.Errorf("StartProcess: %w", err)
	}
	return t, made, nil
}

func processKeepsCI(b *bench) error {
	t, made, err := b.busy()
	if err != nil {
		return err
	}
	refused := want("DestroyCI under a process", t.DestroyCI(made.ci), devices.ErrInUse)
	_, alive := t.CIInfo(made.ci)
	list, err := t.Processes(t.gpu, devices.ComputeProcess)
	if len(list) != 1 || list[0].PID != 4711 || list[0].GI != made.info.ID || list[0].CI != made.ciInfo.ID {
		err = errors.Join(err, fmt.Errorf("processes are %+v", list))
	}
	return errors.Join(refused, alive, err)
}

func namespaceFilters(b *bench) error {
	t, _, err := b.busy()
	if err != nil {
		return err
	}
	other, err := b.same(Client{Name: "second", PIDNamespace: "pod"}, t)
	if err != nil {
		return err
	}
	list, err := other.Processes(other.gpu, devices.ComputeProcess)
	return errors.Join(err, differ("processes that a pod sees of the host", len(list), 0))
}

// lose opens every GPU of a node with two or more, and lets the first fall off the bus.
func (b *bench) lose() ([]target, error) {
	if b.Controls == nil {
		return nil, errNoControls
	}
	targets, err := b.all(Client{Name: "first"})
	if err != nil {
		return nil, err
	}
	if len(targets) < 2 {
		return nil, skip("one GPU only")
	}
	return targets, b.Controls.Lose(targets[0].busID)
}

func lostAlone(b *bench) error {
	targets, err := b.lose()
	if err != nil {
		return err
	}
	lost, other := targets[0], targets[1]
	_, memory := lost.Memory(lost.gpu)
	_, _, mode := lost.MIGMode(lost.gpu)
	_, lookUp := lost.GPUByBusID(lost.busID)
	_, alive := other.GPUByBusID(other.busID)
	_, answers := other.Memory(other.gpu)
	return errors.Join(want("Memory", memory, devices.ErrLost), want("MIGMode", mode, devices.ErrLost),
		want("GPUByBusID", lookUp, devices.ErrLost), alive, answers)
}

func uuidFailsWhileLost(b *bench) error {
	targets, err := b.lose()
	if err != nil {
		return err
	}
	other := targets[1]
	uuid, err := other.UUID(other.gpu)
	if err != nil {
		return fmt.Errorf("UUID: %w", err)
	}
	_, err = other.GPUByUUID(uuid)
	return want("GPUByUUID of a healthy GPU", err, devices.ErrLost)
}

func eventsInOrder(b *bench) error {
	if b.Controls == nil {
		return errNoControls
	}
	targets, err := b.all(Client{Name: "first"})
	if err != nil {
		return err
	}
	t := targets[0]
	set, err := t.NewEventSet()
	if err != nil {
		return fmt.Errorf("NewEventSet: %w", err)
	}
	if err := set.Register(t.gpu, devices.EventXID); err != nil {
		return fmt.Errorf("register for events: %w", err)
	}
	sent := []devices.Event{
		{GPU: t.gpu, Type: devices.EventXID, Data: 94, GI: 9, CI: 0},
		{GPU: t.gpu, Type: devices.EventXID, Data: 79, GI: devices.NoInstance, CI: devices.NoInstance},
	}
	errs := []error{}
	for _, e := range sent {
		errs = append(errs, b.Controls.XID(t.busID, e.Data, e.GI, e.CI))
	}
	for _, e := range sent {
		got, err := set.Wait(time.Second)
		errs = append(errs, err, differ("event", got, e))
	}
	_, err = set.Wait(time.Millisecond)
	return errors.Join(append(errs, want("Wait after the last", err, devices.ErrTimeout), set.Close())...)
}

func waitSaysLost(b *bench) error {
	if b.Controls == nil {
		return errNoControls
	}
	targets, err := b.all(Client{Name: "first"})
	if err != nil {
		return err
	}
	t := targets[0]
	set, err := t.NewEventSet()
	if err != nil {
		return fmt.Errorf("NewEventSet: %w", err)
	}
	if err := set.Register(t.gpu, devices.EventXID); err != nil {
		return fmt.Errorf("register for events: %w", err)
	}
	if err := b.Controls.Lose(t.busID); err != nil {
		return fmt.Errorf("Lose: %w", err)
	}
	_, err = set.Wait(time.Second)
	return want("Wait", err, devices.ErrLost)
}
