// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package topology chooses which GPUs of a node work together: those with the best links between them, taken from where the
// loss hurts least. It is pure: what the links are is read elsewhere.
package topology
