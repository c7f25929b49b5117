// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package deviceplugin_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// An edit of the config to the kubelet's new list, on 8 GPUs: shares, which change no hardware, and instances.
func BenchmarkEditToList(b *testing.B) {
	for _, bb := range []struct {
		name, resource, even, odd string
		evenCount, oddCount       int
	}{
		{"shares", "nvidia.com/gpu.shared", "{timeSlicing: {replicas: 4, rename: true}}", "{timeSlicing: {replicas: 8, rename: true}}", 32, 64},
		{"instances", "nvidia.com/mig-1g.10gb", "{mig: {instances: {1g.10gb: 3}}}", "{mig: {fill: 1g}}", 24, 56},
	} {
		b.Run(bb.name, func(b *testing.B) {
			r := newRig(b, "8xh100-sxm5-80gb", "cdi")
			reach := func(text string, n int) {
				r.config(layout(text))
				start := time.Now()
				for r.Healthy(bb.resource) != n {
					if time.Since(start) > limit {
						b.Fatal(fmt.Errorf("%s has %d of %d devices after %v", bb.resource, r.Healthy(bb.resource), n, limit))
					}
					<-time.After(100 * time.Microsecond)
				}
			}
			reach(bb.odd, bb.oddCount)
			for i := 0; b.Loop(); i++ {
				if i%2 == 0 {
					reach(bb.even, bb.evenCount)
				} else {
					reach(bb.odd, bb.oddCount)
				}
			}
		})
	}
}

// Allocate and GetPreferredAllocation over the socket, as the kubelet calls them; the budgets of the median are 0.12 and 0.15 ms
// for 8 GPUs, and 1 ms for 3 of 16.
func BenchmarkCalls(b *testing.B) {
	for _, bb := range []struct {
		spec string
		size int32
	}{{"8xh100-sxm5-80gb", 1}, {"8xh100-sxm5-80gb", 4}, {"16xa100-sxm4-40gb", 3}, {"16xa100-sxm4-40gb", 8}} {
		r := newRig(b, bb.spec, "cdi")
		r.config(head + "nodes: [{gpus: [{layout: whole}]}]\n")
		r.Wait("the list", soonLimit, func() bool { return r.Healthy("nvidia.com/gpu") > 0 })
		client := r.Client("nvidia.com/gpu")
		ids := []string{}
		for _, d := range r.Devices("nvidia.com/gpu") {
			ids = append(ids, d.GetID())
		}
		name := fmt.Sprintf("%s/%d", bb.spec, bb.size)
		b.Run("preferred/"+name, func(b *testing.B) {
			ask := &pluginapi.PreferredAllocationRequest{ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{
				{AvailableDeviceIDs: ids, AllocationSize: bb.size},
			}}
			median(b, func() error {
				answer, err := client.GetPreferredAllocation(b.Context(), ask)
				if err == nil && len(answer.GetContainerResponses()[0].GetDeviceIDs()) != int(bb.size) {
					err = fmt.Errorf("answer is %v", answer)
				}
				return err
			})
		})
		b.Run("allocate/"+name, func(b *testing.B) {
			ask := &pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: ids[:bb.size]}}}
			median(b, func() error {
				_, err := client.Allocate(b.Context(), ask)
				return err
			})
		})
	}
}

// median reports the median of what a call takes.
func median(b *testing.B, call func() error) {
	b.Helper()
	took := []time.Duration{}
	for b.Loop() {
		start := time.Now()
		if err := call(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
}
