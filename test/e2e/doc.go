// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package e2e tells stories on a real Kubernetes node: kubelet, containerd and runc are real, the driver is simulated, and
// our binary is the one that ships. Its tests are built with the tag e2e and run by "make e2e".
package e2e
