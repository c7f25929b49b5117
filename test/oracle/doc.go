// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package oracle compares choices of GPUs with those of NVIDIA's allocator. It is a module of its own, so that the allocator is
// no dependency of the product; there is nothing in it but tests.
package oracle
