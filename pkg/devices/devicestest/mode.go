// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devicestest

import (
	"errors"
	"fmt"

	"gpuslice/pkg/devices"
)

var modeLines = []line{
	{"the mode of an idle GPU toggles where no reset is needed", modeToggles},
	{"the mode is pending where a reset is needed", modeIsPending},
	{"a reset applies the pending mode", resetAppliesPending},
	{"instances need the mode", instancesNeedMode},
	{"the mode stays on while there are instances", modeStaysWithInstances},
	{"changing the mode needs root", modeNeedsRoot},
}

// modes checks a GPU's current and pending mode.
func (t target) modes(wantCurrent, wantPending bool) error {
	current, pending, err := t.MIGMode(t.gpu)
	return errors.Join(err, differ("current mode", current, wantCurrent), differ("pending mode", pending, wantPending))
}

func modeToggles(b *bench) error {
	t, err := b.cut()
	if err != nil {
		return err
	}
	on := t.modes(true, true)
	count, err := t.MaxMIGDevices(t.gpu)
	if count < 1 {
		err = errors.Join(err, fmt.Errorf("MaxMIGDevices is %d while the mode is on", count))
	}
	activation, offErr := t.SetMIGMode(t.gpu, false)
	return errors.Join(on, err, activation, offErr, t.modes(false, false))
}

func modeIsPending(b *bench) error {
	if b.ModeChangeResets {
		return skip("SetMIGMode resets GPUs here")
	}
	t, err := b.cuttable(Client{Name: "first"}, true)
	if err != nil {
		return err
	}
	activation, err := t.SetMIGMode(t.gpu, true)
	return errors.Join(err, want("activation", activation, devices.ErrResetRequired), t.modes(false, true))
}

func resetAppliesPending(b *bench) error {
	if b.Controls == nil || b.ModeChangeResets {
		return skip("no controls, or SetMIGMode resets GPUs here")
	}
	t, err := b.cuttable(Client{Name: "first"}, true)
	if err != nil {
		return err
	}
	if _, err := t.SetMIGMode(t.gpu, true); err != nil {
		return fmt.Errorf("SetMIGMode: %w", err)
	}
	held := b.Controls.Reset(t.busID)
	if err := errors.Join(want("Reset while a session holds the GPU", held, devices.ErrInUse), t.Shutdown()); err != nil {
		return err
	}
	if err := b.Controls.Reset(t.busID); err != nil {
		return fmt.Errorf("Reset: %w", err)
	}
	again, err := b.same(Client{Name: "first"}, t)
	if err != nil {
		return err
	}
	return again.modes(true, true)
}

func instancesNeedMode(b *bench) error {
	t, err := b.cuttable(Client{Name: "first"}, false)
	if err != nil {
		return err
	}
	p, err := t.small()
	if err != nil {
		return err
	}
	_, create := t.CreateGI(t.gpu, p.ID, p.placements[0])
	_, list := t.GIs(t.gpu, p.ID)
	return errors.Join(want("CreateGI", create, devices.ErrNotSupported), want("GIs", list, devices.ErrNotSupported))
}

func modeStaysWithInstances(b *bench) error {
	t, err := b.cut()
	if err != nil {
		return err
	}
	made, err := t.carveSmall()
	if err != nil {
		return err
	}
	activation, err := t.SetMIGMode(t.gpu, false)
	refused := want("SetMIGMode off with an instance", errors.Join(activation, err), devices.ErrInUse)
	current, _, err := t.MIGMode(t.gpu)
	_, alive := t.GIInfo(made.gi)
	return errors.Join(refused, err, differ("current mode", current, true), alive)
}

func modeNeedsRoot(b *bench) error {
	first, err := b.cuttable(Client{Name: "first"}, false)
	if err != nil {
		return err
	}
	if err := first.Shutdown(); err != nil {
		return fmt.Errorf("Shutdown: %w", err)
	}
	t, err := b.same(Client{Name: "second", Unprivileged: true}, first)
	if err != nil {
		return err
	}
	_, err = t.SetMIGMode(t.gpu, true)
	return errors.Join(want("SetMIGMode", err, devices.ErrNoPermission), t.modes(false, false))
}
