// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"errors"
	"testing"

	"gpuslice/pkg/devices"
)

// What outlives what: instances nothing, the mode a reset, on Ampere a reboot too; a pending mode becomes the mode.
func TestModeOverResetRebootAndReload(t *testing.T) {
	const ampereCut = "gpus:\n- {model: a100-sxm4-40gb, instances: [3g.20gb@4]}\n"
	const amperePending = "gpus:\n- {model: a100-sxm4-40gb, pending: true}\n"
	const hopperCut = "gpus:\n- {model: h100-sxm5-80gb, instances: [3g.40gb@4]}\n"
	reset := func(m *Machine) error { return m.Reset(0) }
	reboot := func(m *Machine) error { m.Reboot(); return nil }
	reload := func(m *Machine) error {
		err := m.UnloadDriver()
		m.LoadDriver("")
		return err
	}
	for _, tc := range []struct {
		name, machine string
		do            func(*Machine) error
		want          string
	}{
		{"Ampere reset", ampereCut, reset, "gpu-0 a100-sxm4-40gb mig=on []\n"},
		{"Ampere reboot", ampereCut, reboot, "gpu-0 a100-sxm4-40gb mig=on []\n"},
		{"Ampere reload", ampereCut, reload, "gpu-0 a100-sxm4-40gb mig=on []\n"},
		{"Ampere pending, reset", amperePending, reset, "gpu-0 a100-sxm4-40gb mig=on []\n"},
		{"Ampere pending, reboot", amperePending, reboot, "gpu-0 a100-sxm4-40gb mig=on []\n"},
		{"Hopper reset", hopperCut, reset, "gpu-0 h100-sxm5-80gb mig=on []\n"},
		{"Hopper reboot", hopperCut, reboot, "gpu-0 h100-sxm5-80gb mig=off\n"},
		{"Hopper reload", hopperCut, reload, "gpu-0 h100-sxm5-80gb mig=off\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := machine(t, tc.machine)
			if err := tc.do(m); err != nil {
				t.Fatal(err)
			}
			if got := m.Dump(); got != tc.want {
				t.Errorf("machine is %s, want %s", got, tc.want)
			}
		})
	}
}

func TestModeChange(t *testing.T) {
	for _, tc := range []struct {
		name, machine string
		on            bool
		activation    devices.Code // 0: active
		want          string
	}{
		{"Hopper toggles", "gpus:\n- {model: h100-sxm5-80gb}\n", true, 0, "gpu-0 h100-sxm5-80gb mig=on []\n"},
		{
			"Ampere waits for a reset", "gpus:\n- {model: a100-sxm4-40gb}\n", true, devices.ErrResetRequired,
			"gpu-0 a100-sxm4-40gb mig=off pending=on\n",
		},
		{
			"Ampere that resets itself", "gpus:\n- {model: a100-sxm4-40gb, modeChangeResets: true}\n", true, 0,
			"gpu-0 a100-sxm4-40gb mig=on []\n",
		},
		{
			"off with instances", "gpus:\n- {model: h100-sxm5-80gb, instances: [1g.10gb@0]}\n", false, devices.ErrInUse,
			"gpu-0 h100-sxm5-80gb mig=on [1g.10gb@0] pending=off\n",
		},
		{
			"off with instances, where it would reset", "gpus:\n- {model: a30-24gb, modeChangeResets: true, instances: [1g.6gb@0]}\n",
			false, devices.ErrInUse, "gpu-0 a30-24gb mig=on [1g.6gb@0] pending=off\n",
		},
		{
			"persistence mode holds", "gpus:\n- {model: h100-sxm5-80gb, persistence: true}\n", true, devices.ErrInUse,
			"gpu-0 h100-sxm5-80gb mig=off pending=on\n",
		},
		{
			"a process holds", "gpus:\n- {model: h100-sxm5-80gb, processes: [{pid: 1}]}\n", true, devices.ErrInUse,
			"gpu-0 h100-sxm5-80gb mig=off pending=on\n",
		},
		{
			"back to what it is clears pending", "gpus:\n- {model: a30-24gb, pending: true}\n", false, 0,
			"gpu-0 a30-24gb mig=off\n",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := open(t, machine(t, tc.machine), Admin("test"))
			activation, err := f.SetMIGMode(f.at(0), tc.on)
			f.ok(err)
			if tc.activation == 0 {
				f.ok(activation)
			} else {
				f.wants(activation, tc.activation)
			}
			f.dumps(tc.want)
		})
	}
}

func TestModeIsNotSupported(t *testing.T) {
	f := open(t, machine(t, "1xl40s"), Admin("test"))
	_, _, err := f.MIGMode(f.at(0))
	f.wants(err, devices.ErrNotSupported)
	_, err = f.SetMIGMode(f.at(0), true)
	f.wants(err, devices.ErrNotSupported)
	f.dumps("gpu-0 l40s\n")
}

func TestResetIsRefused(t *testing.T) {
	for _, tc := range []struct {
		name, machine string
		open          bool
		want          devices.Code
	}{
		{"by a session", "gpus:\n- {model: h100-sxm5-80gb}\n", true, devices.ErrInUse},
		{"by persistence mode", "gpus:\n- {model: h100-sxm5-80gb, persistence: true}\n", false, devices.ErrInUse},
		{"by a process", "gpus:\n- {model: h100-sxm5-80gb, processes: [{pid: 1}]}\n", false, devices.ErrInUse},
		{"when lost", "gpus:\n- {model: h100-sxm5-80gb, lost: true}\n", false, devices.ErrLost},
		{"by the machine", "gpus:\n- {model: h100-sxm5-80gb, reset: unsupported}\n", false, devices.ErrNotSupported},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := machine(t, tc.machine)
			if tc.open {
				open(t, m, Admin("holder")).at(0)
			}
			if err := m.Reset(0); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if log := m.Log(); len(log) != 1 || log[0].Done || !errors.Is(log[0].Err, tc.want) {
				t.Errorf("log is %+v", log)
			}
		})
	}
}

func TestResetThatDoesNothing(t *testing.T) {
	m := machine(t, "gpus:\n- {model: a30-24gb, pending: true, reset: ignored}\n")
	if err := m.Reset(0); err != nil {
		t.Fatal(err)
	}
	if got, want := m.Dump(), "gpu-0 a30-24gb mig=off pending=on\n"; got != want {
		t.Errorf("machine is %s, want %s", got, want)
	}
}

func TestResetRenumbers(t *testing.T) {
	m := machine(t, "gpus:\n- {model: a30-24gb, count: 2, renumberOnReset: true}\n")
	if err := m.Reset(0); err != nil {
		t.Fatal(err)
	}
	f := open(t, m, Admin("test"))
	minor, err := f.Minor(f.at(0))
	f.ok(err)
	if minor != 2 {
		t.Errorf("minor is %d, want 2, the lowest that is neither its own nor taken", minor)
	}
}
