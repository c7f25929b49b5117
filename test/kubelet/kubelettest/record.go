// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package kubelettest

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// Held is what one container holds.
type Held struct {
	PodUID, Container, Resource string
	IDs                         []string
}

// Record writes the device manager's checkpoint as the kubelet does after each allocation, and serves podresources beside it,
// which knows of no pod: as of one with only init containers.
func (k *Kubelet) Record(all ...Held) {
	k.t.Helper()
	type entry struct {
		PodUID, ContainerName, ResourceName string
		DeviceIDs                           map[string][]string
	}
	entries := []entry{}
	for _, h := range all {
		entries = append(entries, entry{h.PodUID, h.Container, h.Resource, map[string][]string{"0": h.IDs}})
	}
	text, err := json.Marshal(map[string]any{"Data": map[string]any{"PodDeviceEntries": entries}, "Checksum": 0})
	if err != nil {
		k.t.Fatal(err)
	}
	path := filepath.Join(filepath.Join(k.Dir, "device-plugins"), "kubelet_internal_checkpoint")
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		k.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		k.t.Fatal(err)
	}
	k.servePodResources()
}

type podResources struct {
	podresourcesv1.UnimplementedPodResourcesListerServer
}

func (podResources) List(context.Context, *podresourcesv1.ListPodResourcesRequest) (*podresourcesv1.ListPodResourcesResponse, error) {
	return &podresourcesv1.ListPodResourcesResponse{}, nil
}

// servePodResources serves until the test ends; once is enough.
func (k *Kubelet) servePodResources() {
	k.t.Helper()
	dir := filepath.Join(k.Dir, "pod-resources")
	if _, err := os.Stat(dir); err == nil {
		return
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		k.t.Fatal(err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "kubelet.sock")})
	if err != nil {
		k.t.Fatal(err)
	}
	server := grpc.NewServer()
	podresourcesv1.RegisterPodResourcesListerServer(server, podResources{})
	go func() { _ = server.Serve(listener) }() // ends with the test
	k.t.Cleanup(server.Stop)
}
