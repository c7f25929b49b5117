// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package source brings what the admin wants to the agent: the config, from a file or a ConfigMap, and the labels of the
// node. Sources are level-triggered: they say what is there now, again and again, and never that something changed.
package source
