// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import "gpuslice/pkg/devices"

// MIG mode. nvml.h knows no error for a mode change that could not be activated: the call succeeds, the pending mode is
// set, and the activation status says why. So a GPU with other clients, with persistence mode, with processes, or with
// instances when the mode goes off, answers activation ErrInUse; one that needs a reset answers ErrResetRequired, unless
// its SetMIGMode resets it. A reset applies the pending mode. A reboot applies it where the mode is kept on the board
// (Ampere), elsewhere the mode is off after it; a reload of the driver counts as a reboot for the mode. Where no table
// says whether a model needs a reset, it needs none.

// setMode is what SetMIGMode(on) does, given whether somebody else is in the way.
func (g *gpu) setMode(on, busy bool) (activation error, reset bool) {
	g.pending = on
	switch {
	case g.mig == on:
		return nil, false
	case busy || len(g.gis) > 0:
		return devices.ErrInUse, false
	case g.model.modeNeedsReset && !g.modeResets:
		return devices.ErrResetRequired, false
	}
	g.mig = on
	return nil, g.model.modeNeedsReset
}

// reset is what the hardware does in a reset: instances and processes vanish, the pending mode becomes the mode.
func (g *gpu) reset() {
	g.cut()
	g.mig = g.pending
	g.fulfil(false)
}

// reload is what a boot or a load of the driver leaves of a GPU.
func (g *gpu) reload() {
	g.timeSlice, g.limits = 0, nil
	g.fulfil(true)
	if !g.model.modeSurvivesReboot {
		g.pending = false
	}
	g.reset()
}
