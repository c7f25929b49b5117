// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package cdi

import (
	"fmt"
	"slices"

	"tags.cncf.io/container-device-interface/specs-go"
)

// Kinds and the annotation that marks our files. The kinds are part of what users' tools look for.
const (
	DevicePluginKind = "k8s.device-plugin.nvidia.com/gpu"
	ClaimKind        = "k8s.gpu.nvidia.com/claim"
	annotation       = "gpuslice.dev/agent"
)

// visibleDevices tells runtimes with the older injection to add nothing of their own: the container sees what CDI gives.
const visibleDevices = "NVIDIA_VISIBLE_DEVICES=void"

// Node is a character device node that a container gets.
type Node struct {
	Path     string // in the container
	HostPath string // where it is on the host, when elsewhere
	Major    int64
	Minor    int64
}

// Device is one entry of a spec.
type Device struct {
	Names []string // every name under which it can be asked for
	Nodes []Node
	Hooks []Hook
}

// Hook is a program that the runtime runs when it makes a container, before the container's process starts. Its first argument is
// its own name. One that fails stops the start, with what it says.
type Hook struct {
	Path string // on the host
	Args []string
}

// hookTimeout bounds a hook that does not end by itself, in seconds.
const hookTimeout = 10

// Qualified is the name that the kubelet hands to the runtime.
func Qualified(kind, name string) string { return kind + "=" + name }

// ClaimDevice is the name of a claim's device. Names are never used again, because runtimes cache them.
func ClaimDevice(claimUID, device string) string { return claimUID + "-" + device }

// Spec builds the spec of a kind. A device without a node is an error: the container would start and see nothing.
// all, when not empty, is the name of an entry that has the nodes of every device.
func Spec(kind, owner string, list []Device, all string, common specs.ContainerEdits) (*specs.Spec, error) {
	spec := &specs.Spec{Kind: kind, Annotations: map[string]string{annotation: owner}}
	everything := []Node{}
	for _, d := range list {
		if len(d.Nodes) == 0 {
			return nil, fmt.Errorf("CDI device %v has no device node", d.Names)
		}
		everything = append(everything, d.Nodes...)
		for _, name := range d.Names {
			spec.Devices = append(spec.Devices, device(name, d.Nodes, d.Hooks))
		}
	}
	if all != "" && len(list) > 0 {
		spec.Devices = append(spec.Devices, device(all, unique(everything), nil))
	}
	return spec, setCommon(spec, common)
}

// setCommon puts what every container needs into a spec, in place of what was there.
func setCommon(spec *specs.Spec, common specs.ContainerEdits) error {
	spec.ContainerEdits = common
	if !slices.Contains(common.Env, visibleDevices) {
		spec.ContainerEdits.Env = append(slices.Clone(common.Env), visibleDevices)
	}
	version, err := specs.MinimumRequiredVersion(spec)
	if err != nil {
		return fmt.Errorf("CDI version for %s: %w", spec.Kind, err)
	}
	spec.Version = version
	return nil
}

func unique(nodes []Node) []Node {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(nodes), func(n Node) bool {
		twice := seen[n.Path]
		seen[n.Path] = true
		return twice
	})
}

func device(name string, nodes []Node, hooks []Hook) specs.Device {
	d := specs.Device{Name: name, ContainerEdits: specs.ContainerEdits{DeviceNodes: deviceNodes(nodes)}}
	for _, h := range hooks {
		timeout := hookTimeout
		d.ContainerEdits.Hooks = append(d.ContainerEdits.Hooks, &specs.Hook{HookName: "createRuntime", Path: h.Path, Args: h.Args, Timeout: &timeout})
	}
	return d
}

func deviceNodes(nodes []Node) []*specs.DeviceNode {
	list := make([]*specs.DeviceNode, len(nodes))
	for i, n := range nodes {
		list[i] = &specs.DeviceNode{Path: n.Path, HostPath: n.HostPath, Type: "c", Major: n.Major, Minor: n.Minor, Permissions: "rw"}
	}
	return list
}
