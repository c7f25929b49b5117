// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package mig knows how a GPU may be cut and how to get from one cut to another.
//
// It is pure: no I/O, no log, no clock, standard library only. A Profile is one kind of instance, a Slot a profile at a
// start, a Layout a set of slots, a Geometry everything that the driver of one GPU allows. Pack chooses starts for wanted
// counts, Diff turns a State and a Want into a Plan, Apply performs a plan's steps through an interface.
//
// Slots and layouts have one notation, printed by String and read by the Geometry they belong to:
//
//	[3g.40gb@4 1g.10gb@0 1g.10gb@1]
//
// Starts are memory slices as the driver counts them. A GPU instance and the compute instance that fills it are one thing
// here; how they are made is the business of whoever implements Partitioner.
package mig
