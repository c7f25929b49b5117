// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package deviceplugin speaks the kubelet's device plugin protocol over the agent's view.
//
// One server per resource, each on a socket name that is never used twice: the kubelet cannot be made to forget a name that
// it still believes connected. A server registers once and then watches its stream; when the stream or the socket is gone
// it closes, takes a new name and registers again. Lists change in place.
package deviceplugin
