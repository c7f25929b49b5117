// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package node

import "path/filepath"

// Places of the node. The cluster has file systems of its own, so these are the paths of a production node and still private.
const (
	// Name is the node's name in the API.
	Name = "gpu-node"
	// IP is the node's address.
	IP = "192.168.77.1"

	// KubeletDir and the folders in it are where kubelet plugins live.
	KubeletDir         = "/var/lib/kubelet"
	DevicePluginDir    = KubeletDir + "/device-plugins"
	PluginDir          = KubeletDir + "/plugins"
	PluginRegistryDir  = KubeletDir + "/plugins_registry"
	PodResourcesSocket = KubeletDir + "/pod-resources/kubelet.sock"

	// CDIDir is the folder of CDI specs that containerd reads.
	CDIDir = "/var/run/cdi"

	// ContainerdSocket serves the container runtime.
	ContainerdSocket = "/run/containerd/containerd.sock"
	// ContainerdState holds one bundle folder with config.json per container.
	ContainerdState = "/run/containerd"
	// RuncRoot holds runc's state per container.
	RuncRoot = ContainerdState + "/runc/k8s.io"

	// RuntimeNamespace is the containerd namespace of the kubelet's containers.
	RuntimeNamespace = "k8s.io"
)

// Environment variables of a program that runs inside the cluster, besides KUBECONFIG.
const (
	// EnvDir names the cluster's own folder.
	EnvDir = "GPUSLICE_CLUSTER_DIR"
	// EnvNodeName holds Name.
	EnvNodeName = "GPUSLICE_NODE_NAME"
	// EnvContainerd holds ContainerdSocket; ctr reads it too.
	EnvContainerd = "CONTAINERD_ADDRESS"
)

// Dir is the cluster's own folder.
type Dir string

// Kubeconfig of the cluster's administrator.
func (d Dir) Kubeconfig() string { return d.join("admin.kubeconfig") }

// ControlSocket is where programs of the node are stopped and started.
func (d Dir) ControlSocket() string { return d.join("control.sock") }

// Program is the path of a program of the cluster, such as ctr or nvidia-cdi-hook.
func (d Dir) Program(name string) string { return filepath.Join(string(d), "bin", name) }

// Logs is the folder with one log per program. It outlives a failed run.
func (d Dir) Logs() string { return d.join("logs") }

// Log is the log of one program.
func (d Dir) Log(program string) string { return filepath.Join(d.Logs(), program+".log") }

func (d Dir) join(name string) string { return filepath.Join(string(d), name) }

// BundleSpec is the OCI spec that a container of a pod was created with, by its id without scheme.
func BundleSpec(containerID string) string {
	return filepath.Join(ContainerdState, "io.containerd.runtime.v2.task", RuntimeNamespace, containerID, "config.json")
}
