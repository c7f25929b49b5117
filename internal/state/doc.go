// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package state keeps what must survive a restart: the intent of every prepared claim and the last good config.
//
// One file each, so that a bad one costs itself only; written to a temporary file, synced and renamed, so that a reader
// sees the old text or the new one. Nothing that can be derived is stored. Every file carries a format version and the
// boot id of the node, because what a claim held on the hardware does not outlive a boot.
package state
