// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package kubelet reads what the kubelet of this node has allocated.
//
// Three records are read, because none is complete: podresources leaves ordinary init containers out, the device manager's
// checkpoint keeps pods that have ended until the next allocation, and the pods API, which tells the two apart, exists on
// newer kubelets only. What cannot be told apart counts as in use.
package kubelet
