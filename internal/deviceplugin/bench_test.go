// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package deviceplugin_test

import (
	"fmt"
	"testing"
	"time"
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
