// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package health_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuslice/pkg/health"
)

// What was reported five times is counted as if it had been told five times.
func TestTimesAreCounted(t *testing.T) {
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	for _, o := range []health.Observation{
		{Source: health.XID, XID: 31, GI: health.Whole, CI: health.Whole},
		{Source: health.XID, XID: 48, GI: health.Whole, CI: health.Whole},
		{Source: health.XID, XID: 95, GI: 3, CI: 0, Action: health.ActionReset},
		{Source: health.Recovery, Action: health.ActionReboot},
		{Source: health.Throttle},
	} {
		one, five := health.State{}, health.State{}
		for range 5 {
			one, _ = one.Observe(health.Policy{}, o, now)
		}
		o.Times = 5
		five, changes := five.Observe(health.Policy{}, o, now)
		if diff := cmp.Diff(one, five); diff != "" {
			t.Errorf("%+v (-one by one +at once):\n%s", o, diff)
		}
		if len(changes) > 0 && changes[0].Fault.Count != 5 {
			t.Errorf("%+v: the change counts %d", o, changes[0].Fault.Count)
		}
	}
}
