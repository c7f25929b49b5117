// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package boot brings up a single-node Kubernetes inside namespaces of its own, and takes it down without a trace.
//
// Three processes of the calling program share the work:
//
//	Launch   on the machine: makes the namespaces, waits, removes the cgroups
//	Init     process 1 inside: collects the dead and passes signals on
//	Run      inside: mounts, network, certificates, programs; then the command that was asked for
//
// Everything that runs inside ends when Init ends, and with it go mounts and network. /run, /var/lib, /var/log and /dev are copies
// that only the cluster sees, so the node has the paths of a production node. Nothing listens on the machine's own network.
package boot
