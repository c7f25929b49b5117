// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package beat lets what a process does again and again fall together, so that an idle one wakes once for all of it.
package beat

import "time"

// start is what beats are counted from; nodes of a cluster start at different times and so do not beat together.
var start = time.Now()

// After is time.After for a loop that does something every d: it ends at the next multiple of d since the process started.
func After(d time.Duration) <-chan time.Time { return time.After(until(time.Since(start), d)) }

// until is above 0 and at most d.
func until(now, d time.Duration) time.Duration {
	since := now % d
	if since < 0 { // a clock that is not the real one
		since += d
	}
	return d - since
}
