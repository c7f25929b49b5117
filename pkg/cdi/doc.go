// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package cdi turns devices into CDI specs and keeps their files.
//
// Device edits are ours: the GPU's device node and, for an instance, its two capability nodes, always with major and minor,
// because a node without numbers is lost to a container at the next reload of the system manager. Common edits (libraries,
// programs, hooks) come from outside as a value. A spec is announced only after the CDI library itself has read it back.
package cdi
