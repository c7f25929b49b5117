// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devicestest

import (
	"errors"
	"fmt"

	"gpuslice/pkg/devices"
)

var sessionLines = []line{
	{"another session's GPU keeps its mode", otherHoldsGPU},
	{"another session's MIG device stays", otherHoldsMIGDevice},
	{"a GPU in MIG mode tells its memory to the privileged only", parentNeedsPermission},
	{"cutting needs privileges", cuttingNeedsPermission},
}

func otherHoldsGPU(b *bench) error {
	t, err := b.cuttable(Client{Name: "first"}, false)
	if err != nil {
		return err
	}
	other, err := b.same(Client{Name: "second"}, t)
	if err != nil {
		return err
	}
	activation, err := t.SetMIGMode(t.gpu, true)
	refused := want("activation while another session holds the GPU", activation, devices.ErrInUse)
	if err := errors.Join(err, refused, t.modes(false, true), other.Shutdown()); err != nil {
		return err
	}
	activation, err = t.SetMIGMode(t.gpu, true)
	return errors.Join(err, activation, t.modes(true, true))
}

func otherHoldsMIGDevice(b *bench) error {
	t, err := b.cut()
	if err != nil {
		return err
	}
	made, err := t.carveSmall()
	if err != nil {
		return err
	}
	other, err := b.same(Client{Name: "second"}, t)
	if err != nil {
		return err
	}
	if _, err := other.MIGDevice(other.gpu, 0); err != nil {
		return fmt.Errorf("MIGDevice: %w", err)
	}
	refused := want("destroying what another session holds", errors.Join(t.DestroyCI(made.ci), t.DestroyGI(made.gi)), devices.ErrInUse)
	_, alive := t.GIInfo(made.gi)
	if err := errors.Join(refused, alive, other.Shutdown()); err != nil {
		return err
	}
	return errors.Join(t.DestroyCI(made.ci), t.DestroyGI(made.gi))
}

func parentNeedsPermission(b *bench) error {
	t, err := b.cut()
	if err != nil {
		return err
	}
	if _, err := t.carveSmall(); err != nil {
		return err
	}
	total, err := t.Memory(t.gpu)
	if err != nil || total == 0 {
		return errors.Join(fmt.Errorf("Memory of the GPU is %d for the privileged", total), err)
	}
	other, err := b.same(Client{Name: "second", Unprivileged: true}, t)
	if err != nil {
		return err
	}
	_, parent := other.Memory(other.gpu)
	_, processes := other.Processes(other.gpu, devices.ComputeProcess)
	h, err := other.MIGDevice(other.gpu, 0)
	if err != nil {
		return fmt.Errorf("MIGDevice: %w", err)
	}
	share, err := other.Memory(h)
	if share == 0 || share > total {
		err = errors.Join(err, fmt.Errorf("Memory of the MIG device is %d of %d", share, total))
	}
	return errors.Join(err, want("Memory", parent, devices.ErrNoPermission), want("Processes", processes, devices.ErrNoPermission))
}

func cuttingNeedsPermission(b *bench) error {
	t, err := b.cut()
	if err != nil {
		return err
	}
	p, err := t.small()
	if err != nil {
		return err
	}
	other, err := b.same(Client{Name: "second", Unprivileged: true}, t)
	if err != nil {
		return err
	}
	_, create := other.CreateGI(other.gpu, p.ID, p.placements[0])
	_, list := other.GIs(other.gpu, p.ID)
	return errors.Join(want("CreateGI", create, devices.ErrNoPermission), want("GIs", list, devices.ErrNoPermission))
}
