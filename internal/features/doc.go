// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package features turns a view into the labels of its Node: those of NVIDIA's GPU Feature Discovery under the same names with the
// same values, and our own. It is pure; docs/labels.md has every label.
package features
