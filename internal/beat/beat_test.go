// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package beat

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestUntil(t *testing.T) {
	for _, tc := range []struct {
		why          string
		now, d, want time.Duration
	}{
		{"on a beat the next one is a whole period away", 10 * time.Second, 5 * time.Second, 5 * time.Second},
		{"in between it is nearer", 11 * time.Second, 5 * time.Second, 4 * time.Second},
		{"before the start it is no farther", -time.Second, 5 * time.Second, time.Second},
		{"long before neither", -11 * time.Second, 5 * time.Second, time.Second},
	} {
		if got := until(tc.now, tc.d); got != tc.want {
			t.Errorf("%s: %v after the start, every %v: %v, want %v", tc.why, tc.now, tc.d, got, tc.want)
		}
	}
}

// What happens every 1, 2 and 5 s begins at different moments and soon happens together: 10 or 11 wakes in 10 s, not 17.
func TestLoopsFallTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		woken := make(chan time.Time, 100)
		var loops sync.WaitGroup
		for i, d := range []time.Duration{time.Second, 2 * time.Second, 5 * time.Second} {
			<-time.After(time.Duration(i) * 150 * time.Millisecond)
			loops.Go(func() {
				for {
					select {
					case <-ctx.Done():
						return
					case at := <-After(d):
						woken <- at
					}
				}
			})
		}
		<-time.After(10 * time.Second)
		stop()
		loops.Wait()
		close(woken)
		all, moments := 0, map[time.Time]bool{}
		for at := range woken {
			all++
			moments[at] = true
		}
		if all < 16 || len(moments) > 11 { // 10 s hold 10 beats, and one more at an end
			t.Errorf("%d things were done at %d moments", all, len(moments))
		}
	})
}
