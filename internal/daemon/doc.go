// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package daemon is the plumbing of a long-lived process: its log, its signals and what it tells over HTTP.
package daemon
