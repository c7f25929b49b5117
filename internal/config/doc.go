// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package config reads the node configuration: which nodes and GPUs follow which layout.
//
// Load is strict and says everything that is wrong at once, each with line, field and the valid values, so that a config
// either means what its author wrote or changes nothing (P5). What a layout becomes on a GPU depends on that GPU and is
// decided elsewhere; whether the text is sound does not, and is decided here.
package config
