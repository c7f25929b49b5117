// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package agent owns the GPUs of a node: it alone changes them and says what may be offered.
//
// One loop, level-triggered. Converge reads the hardware and everything that may hold it, compiles what the config wants of
// each GPU, and takes the difference. What a change takes away leaves the View first, then the holders are read again, then
// the hardware is changed, then read back; the View grows by what was read. Allocate and Reserve answer from the View under
// the lock that shrinks it, so that a device is never handed out while it goes.
//
// Everything that decides is a pure function of values: usage.go, compile.go, view.go. agent.go and converge.go act.
package agent
