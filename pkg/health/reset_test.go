// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package health_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"gpuslice/pkg/health"
)

// P11: reports of any number and kind fill neither memory nor disk, and none of the faults among them is lost.
func TestBounds(t *testing.T) {
	s, harmless := health.State{}, health.State{}
	const n = 100_000
	for i := range n {
		o := inside(uint64(i+1000), i%20)
		harmless, _ = harmless.Observe(health.Policy{}, o, start)
		o.Action = health.ActionOf(uint64(1 + i%2))
		s, _ = s.Observe(health.Policy{}, o, start)
	}
	if got := harmless.Device(health.Whole); got.Health != health.Healthy || len(harmless.Faults) != 0 {
		t.Errorf("harmless XIDs: %s, %d faults", got.Health, len(harmless.Faults))
	}
	for _, s := range []health.State{s, harmless} {
		sum := s.Others
		for _, c := range s.Counts {
			sum += c.N
		}
		if len(s.Counts) > health.MaxXIDs || sum != n {
			t.Errorf("%d counters for %d observations", len(s.Counts), sum)
		}
	}
	for i := range n { // faults by the table of a policy, which no other explains
		o := inside(48, i)
		o.XID += uint64(i % 2 * 31) // 48 and 79
		s, _ = s.Observe(health.Policy{}, o, start)
	}
	if got := s.Device(77_777); got.Health != health.Unhealthy || len(s.Faults) > health.MaxFaults+1 {
		t.Errorf("%d faults, instance 77777 is %s", len(s.Faults), got.Health)
	}
	if text, err := json.Marshal(s); err != nil || len(text) > 64<<10 {
		t.Errorf("stored in %d bytes, %v", len(text), err)
	}
	if s, _ = s.Heal(health.Booted); s.Device(77_777).Health != health.Unhealthy {
		t.Error("a fault that was not kept apart is healed by less than it needs")
	}
	if s, _ = s.Heal(health.Answered); s.Device(health.Whole).Health != health.Healthy {
		t.Error("a boot that answers does not heal all")
	}
	for range 2 {
		s, _ = s.Observe(health.Policy{}, health.Observation{Source: health.Throttle}, start)
	}
	if last := s.Counts[len(s.Counts)-1]; last != (health.Count{Source: health.Throttle, N: 2}) || len(s.Counts) > health.MaxXIDs+1 {
		t.Errorf("%d counters, the last of %+v: many XIDs displace what is no XID", len(s.Counts), last)
	}
}

// A reset is tried once for a fault, later ones wait longer and longer; it is never tried where it would not help.
func TestWantsReset(t *testing.T) {
	for _, tc := range []struct {
		why   string
		story string
		want  bool
	}{
		{"healthy", "", false},
		{"harmless", "mnop", false},
		{"needs it", "a", true},
		{"an instance needs it", "b", true},
		{"the driver says so", "f", true},
		{"needs more", "c", false},
		{"needs it, and more", "ac", false},
		{"needs more in another instance", "bd", false},
		{"others report what nobody knows", "ag", false},
		{"it was reset, by whomever", "aR", false},
		{"a second fault after the reset", "aRh", true},
		{"the same again after the reset", "aRa", true},
		{"healed", "aRN", false},
	} {
		if got := told(tc.story).WantsReset(start); got != tc.want {
			t.Errorf("%s: %v", tc.why, got)
		}
	}
}

// The waits between attempts, typed by hand in minutes: doubled from one, at most 60.
func TestResetBackoff(t *testing.T) {
	for _, ok := range []bool{false, true} {
		s, now := told("a"), start
		for i, minutes := range []int{0, 1, 2, 4, 8, 16, 32, 60, 60, 60} {
			wait := time.Duration(minutes) * time.Minute
			if minutes > 0 && s.WantsReset(now.Add(wait-time.Second)) {
				t.Errorf("attempt %d comes before %v", i, wait)
			}
			now = now.Add(wait)
			if !s.WantsReset(now) {
				t.Fatalf("attempt %d does not come after %v", i, wait)
			}
			s = restarted(t, s.ResetTried(now, ok))
			if ok && s.WantsReset(now.Add(24*time.Hour)) {
				t.Fatal("the GPU is reset again although the fault did not come back")
			}
			if s.Device(health.Whole).Health != health.Unhealthy {
				t.Fatal("an attempt heals")
			}
			if ok { // it works each time, and each time the fault comes back: slower, too
				s, _ = s.Heal(health.ActionRead)
				s = tell(s, 'a', now)
			}
		}
	}
}

func TestResetBackoffEnds(t *testing.T) {
	tried := told("a").ResetTried(start, false).ResetTried(start, false).ResetTried(start, false)
	for _, tc := range []struct {
		why string
		s   health.State
		at  time.Time
	}{
		{"the clock went back by a year", tried, start.AddDate(-1, 0, 0)},
		{"a boot is a new beginning", tell(tell(tried, 'B', start), 'a', start), start},
		{"so is an admin's word", tell(tell(tried, 'C', start), 'a', start), start},
		{"an attempt of long ago does not count", tried.ResetTried(start.Add(3*time.Hour), false), start.Add(3*time.Hour + time.Minute)},
	} {
		if !tc.s.WantsReset(tc.at) {
			t.Errorf("%s: no reset", tc.why)
		}
	}
	if tried.WantsReset(start.Add(3 * time.Minute)) {
		t.Error("three failures wait for less than four minutes")
	}
}

// No input makes it panic, grow without bound, forget an ill GPU over a restart, or lower a severity.
func FuzzState(f *testing.F) {
	f.Add("xid", uint64(48), 1, 3, 0, "", int64(0), 0)
	f.Add("xid", uint64(math.MaxUint64), -9, math.MinInt, math.MaxInt, "\xff\x00 \u2028<", int64(math.MaxInt64), 99)
	f.Add("", uint64(154), 2, 0, -1, "reason", int64(math.MinInt64), -1)
	f.Add("recovery-action", uint64(0), 2, -1, -1, "", int64(253402300800), 3)
	f.Add("xid", uint64(79), 0, 1, 0, "", int64(-99_999_999_999), 5) // a year below 0
	f.Add("unreachable", uint64(0), 0, -1, -1, "é", int64(-62135596801), 4)
	f.Fuzz(func(t *testing.T, source string, xid uint64, action, gi, ci int, reason string, at int64, evidence int) {
		now := time.Unix(at, 0)
		o := health.Observation{Source: health.Source(source), XID: xid, Action: health.RecoveryAction(action), GI: gi, CI: ci, Reason: reason}
		s := health.State{}
		for _, story := range []string{"", "b", "cB"} {
			s = told(story)
			ill := s.Device(gi).Health
			s, _ = s.Observe(health.Policy{}, o, now)
			if s.Device(gi).Health != ill && ill == health.Unhealthy {
				t.Fatalf("%+v heals", o)
			}
			s = restarted(t, s.ResetTried(now, true))
			_ = s.WantsReset(now.Add(time.Minute))
			_ = o.Action.String() + health.Evidence(evidence).String() + health.Class(evidence).String()
			s, changes := s.Heal(health.Evidence(evidence))
			if len(s.Faults)+len(changes) > 2 || len(s.Device(ci).Reason) > 512 {
				t.Fatalf("%+v", s)
			}
		}
	})
}
