// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// gpus is the resource of whole GPUs.
const gpus = "nvidia.com/gpu"

// timeOptions asks n times for what needs no thought, which shows what a call takes by itself, and returns the median in milliseconds.
func (s *session) timeOptions(ctx context.Context, n int) (float64, error) {
	client, err := s.Client(gpus)
	if err != nil {
		return 0, err
	}
	return each(n, func(int) error {
		_, err := client.GetDevicePluginOptions(ctx, &pluginapi.Empty{})
		return err
	})
}

// timeAllocate asks n times for one device, each in its turn, and returns the median in milliseconds.
func (s *session) timeAllocate(ctx context.Context, n int) (float64, error) {
	client, err := s.Client(gpus)
	if err != nil {
		return 0, err
	}
	ids := s.ids(gpus)
	took, err := each(n, func(i int) error {
		answer, err := client.Allocate(ctx, &pluginapi.AllocateRequest{
			ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: []string{ids[i%len(ids)]}}},
		})
		if err != nil {
			return err
		}
		return checkAllocated(answer)
	})
	if err != nil {
		return 0, fmt.Errorf("allocate: %w", err)
	}
	return took, nil
}

// checkAllocated wants an answer by which the runtime can give a device to the container.
func checkAllocated(answer *pluginapi.AllocateResponse) error {
	containers := answer.GetContainerResponses()
	if len(containers) != 1 {
		return fmt.Errorf("answer is for %d containers, want 1", len(containers))
	}
	c := containers[0]
	if len(c.GetCdiDevices())+len(c.GetDevices())+len(c.GetEnvs())+len(c.GetMounts())+len(c.GetAnnotations()) == 0 {
		return errors.New("answer gives nothing")
	}
	return nil
}

// timePreferred asks n times for a choice of size devices among all and returns the median in milliseconds.
func (s *session) timePreferred(ctx context.Context, n, size int) (float64, error) {
	client, err := s.Client(gpus)
	if err != nil {
		return 0, err
	}
	ids := s.ids(gpus)
	took, err := each(n, func(int) error {
		answer, err := client.GetPreferredAllocation(ctx, &pluginapi.PreferredAllocationRequest{
			ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{
				{AvailableDeviceIDs: ids, AllocationSize: int32(size)},
			},
		})
		if err != nil {
			return err
		}
		return checkPreferred(answer, ids, size)
	})
	if err != nil {
		return 0, fmt.Errorf("preferred allocation: %w", err)
	}
	return took, nil
}

// checkPreferred wants size different devices out of those that are available.
func checkPreferred(answer *pluginapi.PreferredAllocationResponse, available []string, size int) error {
	containers := answer.GetContainerResponses()
	if len(containers) != 1 {
		return fmt.Errorf("answer is for %d containers, want 1", len(containers))
	}
	chosen := slices.Compact(slices.Sorted(slices.Values(containers[0].GetDeviceIDs())))
	foreign := slices.ContainsFunc(chosen, func(id string) bool { return !slices.Contains(available, id) })
	if foreign || len(chosen) != size || len(containers[0].GetDeviceIDs()) != size {
		return fmt.Errorf("chosen are %v, want %d of %v", containers[0].GetDeviceIDs(), size, available)
	}
	return nil
}
