// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package report tells the cluster what the agent sees: a condition and an annotation on the Node, patched on change only.
package report
