// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package cordon keeps new pods off nodes whose GPUs are gone beyond a threshold, and lets them back when the GPUs are.
//
// It knows of GPUs only what the agents write on their Nodes. [Decide] is pure; the [Controller] carries out what it says. Every
// cordon made here is marked on the Node itself, and nothing else is ever undone.
package cordon
