// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package kubelet

import (
	"context"
	"fmt"
	"slices"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Devices returns the list of a resource; nil without a live stream.
func (k *Kubelet) Devices(resource string) []*pluginapi.Device {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.plugins[resource]; p != nil && p.alive && len(p.lists) > 0 {
		return slices.Clone(p.lists[len(p.lists)-1].Devices)
	}
	return nil
}

// Connected says that the kubelet holds a stream to the server of a resource.
func (k *Kubelet) Connected(resource string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.plugins[resource]
	return p != nil && p.alive
}

// Stream is the socket that serves a resource and every list that came over the open stream; "" without one.
func (k *Kubelet) Stream(resource string) (endpoint string, lists []List) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.plugins[resource]; p != nil && p.alive {
		return p.endpoint, slices.Clone(p.lists)
	}
	return "", nil
}

// Registers counts registrations.
func (k *Kubelet) Registers() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.registers
}

// Healthy counts the healthy devices of a resource.
func (k *Kubelet) Healthy(resource string) int {
	n := 0
	for _, d := range k.Devices(resource) {
		if d.GetHealth() == pluginapi.Healthy {
			n++
		}
	}
	return n
}

// Until returns when the condition holds; it is looked at whenever a list comes or a stream ends.
func (k *Kubelet) Until(ctx context.Context, done func() bool) error {
	for {
		k.mu.Lock()
		changed := k.changed
		k.mu.Unlock()
		if done() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Client talks to the server of a resource as the kubelet would.
func (k *Kubelet) Client(resource string) (pluginapi.DevicePluginClient, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.plugins[resource]
	if p == nil {
		return nil, fmt.Errorf("%s is not registered", resource)
	}
	return pluginapi.NewDevicePluginClient(p.conn), nil
}
