// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package health knows what the reports about a GPU mean for the devices on it, and what makes them whole again.
//
// It is pure: no I/O, no log, no clock, standard library only; times come in as arguments and are only ever told, never
// weighed, except for the pace of resets. A Policy gives every Observation a Class. A State is one GPU's faults, a value that
// is stored as JSON: Observe adds to it, Heal takes from it what an Evidence proves to be over, Device judges the GPU or one
// of its instances.
//
//	XID 48 on instance 3: needs a reset of the GPU
//	reset pending: XID 48 on instance 3: needs a reset of the GPU
//
// Only evidence heals:
//
//	fault needs a reset     a reset, then recovery action none; or a driver load, a boot, an admin's word
//	fault needs a reboot    a driver load or a boot, then an answer of the GPU; or an admin's word
//
// Time, clean reads, other events, a changed policy and restarts of the agent heal nothing. What counts is the order in which
// a State is told: whatever happens again after an evidence needs that evidence again, so a caller serialises its calls.
package health
