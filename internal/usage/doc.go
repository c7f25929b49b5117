// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package usage turns a view into metrics. They are computed when they are asked for, so that what is gone leaves no series behind.
package usage
