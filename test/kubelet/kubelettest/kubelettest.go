// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package kubelettest gives a test a kubelet that fails it when a plugin breaks the protocol.
package kubelettest

import (
	"os"
	"testing"
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"gpuslice/test/kubelet"
)

// Kubelet is a kubelet whose errors are the test's.
type Kubelet struct {
	*kubelet.Kubelet
	t testing.TB
}

// Start makes a kubelet directory and a kubelet in it; both go when the test ends.
func Start(t testing.TB) *Kubelet {
	t.Helper()
	dir, err := os.MkdirTemp("", "kubelet")
	if err != nil {
		t.Fatal(err)
	}
	k := &Kubelet{Kubelet: kubelet.New(dir, func(err error) { t.Error(err) }), t: t}
	t.Cleanup(func() {
		k.Stop()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	k.Boot()
	return k
}

// Boot starts the kubelet, which removes every socket in its directory first.
func (k *Kubelet) Boot() {
	k.t.Helper()
	if err := k.Kubelet.Boot(); err != nil {
		k.t.Fatal(err)
	}
}

// Wipe removes every socket in the directory.
func (k *Kubelet) Wipe() {
	k.t.Helper()
	if err := k.Kubelet.Wipe(); err != nil {
		k.t.Fatal(err)
	}
}

// Wait waits until the condition, which may be about anything, holds and logs how long it took.
func (k *Kubelet) Wait(what string, limit time.Duration, done func() bool) {
	k.t.Helper()
	start, tick := time.Now(), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for !done() {
		if time.Since(start) > limit {
			k.t.Fatalf("%s: not within %v", what, limit)
		}
		<-tick.C
	}
	k.t.Logf("%s after %v", what, time.Since(start).Round(time.Millisecond))
}

// Client talks to the server of a resource as the kubelet would.
func (k *Kubelet) Client(resource string) pluginapi.DevicePluginClient {
	k.t.Helper()
	client, err := k.Kubelet.Client(resource)
	if err != nil {
		k.t.Fatal(err)
	}
	return client
}

// Allocate asks for devices for one container.
func (k *Kubelet) Allocate(resource string, ids ...string) (*pluginapi.ContainerAllocateResponse, error) {
	k.t.Helper()
	answer, err := k.Client(resource).Allocate(k.t.Context(), &pluginapi.AllocateRequest{
		ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: ids}},
	})
	if err != nil {
		return nil, err
	}
	return answer.GetContainerResponses()[0], nil
}
