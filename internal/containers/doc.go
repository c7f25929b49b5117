// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package containers looks into running containers, to see whether they have the devices that they were given. It needs no
// socket of the container runtime: the API server says which container of a pod runs under which id, the id is part of the names
// of its cgroups, and /proc shows what its processes see.
package containers
