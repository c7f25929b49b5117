// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package health_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"gpuslice/pkg/health"
)

var start = time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)

// told is a State after a story.
func told(story string) health.State {
	s := health.State{}
	for i := range len(story) {
		s = tell(s, story[i], start.Add(time.Duration(i)*time.Minute))
	}
	return s
}

// restarted is what an agent finds after it went: the State as it was stored.
func restarted(t *testing.T, s health.State) health.State {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var back health.State
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back, s) {
		t.Fatalf("stored as %s\nread as %+v\nwas     %+v", text, back, s)
	}
	return back
}

// Section 12, typed by hand: which evidences end a fault of which class, in which order.
func TestEvidence(t *testing.T) {
	for _, tc := range []struct {
		why   string
		told  string
		reset bool // a fault that needs a reset is over
		boot  bool // one that needs a reboot is
	}{
		{"nothing", "", false, false},
		{"a reset alone is not read back", "R", false, false},
		{"none alone: nobody has reset it", "N", false, false},
		{"none before the reset", "NR", false, false},
		{"none after the reset", "RN", true, false},
		{"none after an answer after the reset", "RWN", true, false},
		{"an answer", "W", false, false},
		{"a reset and an answer", "RW", false, false},
		{"a driver load", "L", true, false},
		{"a boot", "B", true, false},
		{"a driver load that answers", "LW", true, true},
		{"a boot that answers", "BW", true, true},
		{"a boot that answers late", "BNRPW", true, true},
		{"an answer before the boot", "WB", true, false},
		{"an admin's word", "C", true, true},
	} {
		for fault, want := range map[string]bool{"a": tc.reset, "b": tc.reset, "h": tc.reset, "f": tc.reset, "e": tc.reset, "c": tc.boot, "d": tc.boot, "g": tc.boot} {
			s := told(fault + strings.ReplaceAll(tc.told, "P", "p"))
			if got := s.Device(health.Whole); (got.Health == health.Healthy) != want {
				t.Errorf("%s: fault %s is %s (%s), want it healed: %v", tc.why, fault, got.Health, got.Reason, want)
			}
			if s = told(tc.told + fault); s.Device(health.Whole).Health != health.Unhealthy {
				t.Errorf("%s: evidence from before fault %s heals it", tc.why, fault)
			}
		}
	}
}

// Whatever is no evidence heals no fault: 24 h, clean reads, restarts, harmless events of its own XID and of others, another
// policy, an evidence that is none, attempts to reset.
func TestNothingElseHeals(t *testing.T) {
	lenient, err := health.ParsePolicy(map[string]string{"48": "ignore", "79": "ignore", "151": "ignore", "31": "ignore"})
	if err != nil {
		t.Fatal(err)
	}
	for _, story := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "ac", "ca", "bd", "db", "eh", "aR", "cB", "cL", "dLR"} {
		s := told(story)
		faults := len(s.Faults)
		for minute := range 24 * 60 {
			now := start.Add(time.Duration(minute) * time.Minute)
			for _, letter := range []byte("mnop") {
				s = tell(s, letter, now)
			}
			if !strings.ContainsAny(story, "BL") {
				s = tell(s, 'W', now)
			}
			s, _ = s.Heal(health.Evidence(minute + 6))
			for _, o := range observations {
				if o.Source == health.XID && o.Action == health.ActionAbsent {
					s, _ = s.Observe(lenient, o, now)
				}
			}
			for _, source := range []health.Source{health.Throttle, health.RemapPending, health.Uncorrected} {
				s, _ = s.Observe(health.Policy{}, health.Observation{Source: source, Action: health.ActionNone}, now)
			}
			s = s.ResetTried(now, false)
			if minute%60 == 0 {
				s = restarted(t, s)
			}
		}
		if got := s.Device(health.Whole); got.Health != health.Unhealthy || len(s.Faults) != faults {
			t.Errorf("%s: after a day %s with %d faults, want unhealthy with %d", story, got.Health, len(s.Faults), faults)
		}
		if s, changes := s.Heal(health.Cleared); len(changes) != faults || len(s.Faults) != 0 {
			t.Errorf("%s: an admin clears %d of %d", story, len(changes), faults)
		}
	}
}

// H06, P3: a fault with ids hits that instance and no neighbour, which takes nothing new; one without hits all.
func TestPlaces(t *testing.T) {
	const ok, pending, ill = health.Healthy, health.ResetPending, health.Unhealthy
	for _, tc := range []struct {
		why                        string
		story                      string
		gpu, first, second, others health.Health
	}{
		{"nothing", "", ok, ok, ok, ok},
		{"harmless in an instance", "mno", ok, ok, ok, ok},
		{"all of it", "a", ill, ill, ill, ill},
		{"instance 1", "b", ill, ill, pending, pending},
		{"instance 2, which needs a reboot", "d", ill, pending, ill, pending},
		{"both", "bd", ill, ill, ill, pending},
		{"all of it, then one", "ab", ill, ill, ill, ill},
		{"one, then all of it", "ba", ill, ill, ill, ill},
		{"the driver's action is the ill instance's", "bf", ill, ill, pending, pending},
		{"a neighbour's small error is not to blame for it", "be", ill, ill, pending, pending},
		{"nobody else is", "e", ill, pending, ill, pending},
		{"the action first: all of it, whoever is named then", "fb", ill, ill, ill, ill},
		{"after a reset there must be another culprit", "bRe", ill, ill, ill, pending},
	} {
		s := told(tc.story)
		for gi, want := range map[int]health.Health{health.Whole: tc.gpu, -7: tc.gpu, 1: tc.first, 2: tc.second, 0: tc.others, 9: tc.others} {
			if got := s.Device(gi); got.Health != want {
				t.Errorf("%s: instance %d is %s (%s), want %s", tc.why, gi, got.Health, got.Reason, want)
			}
		}
	}
}

// A recovery action is put down to a standing fault only if that demands as much; one with ids has its culprit.
func TestCulprits(t *testing.T) {
	const ok, pending, ill = health.Healthy, health.ResetPending, health.Unhealthy
	for _, tc := range []struct {
		why           string
		story         string
		then          health.Observation
		first, second health.Health
		class         health.Class // of the last fault
	}{
		{"nobody else", "", with(inside(31, 2), health.ActionReset), pending, ill, health.Reset},
		{"the ill neighbour", "b", with(inside(31, 2), health.ActionReset), ill, pending, health.Reset},
		{"the ill GPU", "a", with(inside(31, 2), health.ActionReset), ill, ill, health.Reset},
		{"the neighbour demands less", "b", with(inside(31, 2), health.ActionReboot), ill, ill, health.Reboot},
		{"the neighbour demands more", "d", with(inside(31, 1), health.ActionReset), pending, ill, health.Reboot},
		{"a reset does not end what the neighbour demands", "dR", with(inside(31, 1), health.ActionReboot), pending, ill, health.Reboot},
		{"its driver load may have", "dL", with(inside(31, 1), health.ActionReboot), ill, ill, health.Reboot},
		{"an XID that is a fault by itself", "b", with(inside(48, 2), health.ActionReset), ill, ill, health.Reset},
		{"the action alone demands more", "b", health.Observation{Source: health.Recovery, Action: health.ActionReboot}, ill, ill, health.Reboot},
		{"the action alone demands less", "d", health.Observation{Source: health.Recovery, Action: health.ActionReset}, pending, ill, health.Reboot},
		{"the announcement has ids", "", with(inside(154, 2), health.ActionReset), pending, ill, health.Reset},
		{"after a reset the announcement names another", "bR", with(inside(154, 2), health.ActionReset), ill, ill, health.Reset},
		{"the announcement has none", "b", with(whole(154), health.ActionReset), ill, pending, health.Reset},
	} {
		s, _ := told(tc.story).Observe(health.Policy{}, tc.then, start)
		first, second, class := s.Device(1).Health, s.Device(2).Health, s.Faults[len(s.Faults)-1].Class
		if first != tc.first || second != tc.second || class != tc.class {
			t.Errorf("%s: %s, %s, %s; want %s, %s, %s", tc.why, first, second, class, tc.first, tc.second, tc.class)
		}
	}
	override, err := health.ParsePolicy(map[string]string{"154": "ignore"})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := (health.State{}).Observe(override, with(whole(154), health.ActionReset), start)
	if s.Device(1).Health != ill || s.Faults[0].Source != health.XID {
		t.Errorf("an ignored announcement of a reset: %+v", s.Faults)
	}
	if s, _ = (health.State{}).Observe(override, with(whole(154), health.ActionNone), start); s.Device(1).Health != ok {
		t.Errorf("an ignored announcement of nothing: %+v", s.Faults)
	}
}

// The announcement of a recovery action, the event and the poll are one fault; what has ids without a GPU instance has none.
func TestOneFaultOneEvent(t *testing.T) {
	s, changes := (health.State{}).Observe(health.Policy{}, with(whole(154), health.ActionReset), start)
	if len(changes) != 1 || changes[0].Kind != health.Appeared {
		t.Fatalf("XID 154: %+v", changes)
	}
	for range 10 {
		if s, changes = s.Observe(health.Policy{}, observations['f'], start.Add(time.Hour)); len(changes) != 0 {
			t.Fatalf("a poll tells news: %+v", changes)
		}
	}
	if f := s.Faults[0]; len(s.Faults) != 1 || f.Count != 11 || !f.First.Equal(start) || !f.Last.Equal(start.Add(time.Hour)) {
		t.Errorf("faults %+v", s.Faults)
	}
	s, changes = s.Observe(health.Policy{}, health.Observation{Source: health.Recovery, Action: health.ActionReboot}, start)
	if len(changes) != 1 || changes[0].Kind != health.Escalated || s.Faults[0].Class != health.Reboot {
		t.Errorf("the action rises: %+v", changes)
	}
	s, changes = s.Observe(health.Policy{}, observations['f'], start)
	if len(changes) != 0 || s.Faults[0].Class != health.Reboot {
		t.Errorf("the action falls: %+v, %+v", changes, s.Faults)
	}
	if _, changes = s.Heal(health.Cleared); len(changes) != 1 || changes[0].Kind != health.Healed || changes[0].Evidence != health.Cleared {
		t.Errorf("an admin clears: %+v", changes)
	}
	for range 2 { // every application's error is told: who reports it counts
		if s, changes = s.Observe(health.Policy{}, whole(13), start); len(changes) != 1 || changes[0].Kind != health.Noted {
			t.Errorf("an application's: %+v", changes)
		}
	}
	if _, changes = s.Observe(health.Policy{}, whole(43), start); len(changes) != 0 {
		t.Errorf("information: %+v", changes)
	}
	parts := health.State{}
	for _, ci := range []int{0, 1, 1, health.Whole, -7} { // of one GPU instance
		parts, _ = parts.Observe(health.Policy{}, health.Observation{Source: health.XID, XID: 48, GI: 2, CI: ci}, start)
	}
	if len(parts.Faults) != 3 {
		t.Errorf("compute instances 0, 1 and none: %+v", parts.Faults)
	}
	odd, _ := (health.State{}).Observe(health.Policy{}, health.Observation{Source: health.XID, XID: 48, GI: -3, CI: 4}, start)
	if f := odd.Faults[0]; f.GI != health.Whole || f.CI != health.Whole {
		t.Errorf("ids without an instance: %+v", f)
	}
}

// States are values: what is done to one changes none that it came from.
func TestStatesAreValues(t *testing.T) {
	for _, story := range []string{"abcdefghmno", "bR", "cB", "am"} {
		s := told(story)
		before := fmt.Sprintf("%+v", s)
		for i := range len(alphabet) {
			tell(s, alphabet[i], start)
			s.ResetTried(start, true)
		}
		if after := fmt.Sprintf("%+v", s); after != before {
			t.Errorf("%s was\n%s\nis\n%s", story, before, after)
		}
	}
}

// Verdicts read as sentences, and the most severe fault decides, then the oldest.
func TestReasons(t *testing.T) {
	reported := health.Observation{Source: health.Reported, Reason: "DCGM: memory"}
	for _, tc := range []struct {
		story string
		gi    int
		want  string
	}{
		{"a", -1, "XID 48: needs a reset of the GPU"},
		{"b", 1, "XID 48 on instance 1: needs a reset of the GPU"},
		{"b", 2, "reset pending: XID 48 on instance 1: needs a reset of the GPU"},
		{"ac", -1, "XID 79: needs a reboot of the node or a reload of the driver"},
		{"ha", -1, "row-remap-failure: needs a reset of the GPU"},
		{"m", 2, ""},
	} {
		if got := told(tc.story).Device(tc.gi); got.Reason != tc.want || (tc.want == "") != got.Since.IsZero() {
			t.Errorf("%s: %q since %v, want %q", tc.story, got.Reason, got.Since, tc.want)
		}
	}
	s, _ := (health.State{}).Observe(health.Policy{}, reported, start)
	if got := s.Device(3); got.Reason != "reported (DCGM: memory): needs a reboot of the node or a reload of the driver" || !got.Since.Equal(start) {
		t.Errorf("%+v", got)
	}
}

// The stored form is a contract with later versions.
func TestStoredForm(t *testing.T) {
	s := told("bRmo")
	s.Resets = health.Attempts{N: 1, Last: start}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"faults":[{"source":"xid","xid":48,"gi":1,"ci":0,"class":"reset","first":"2026-11-30T08:00:00Z","last":"2026-11-30T08:00:00Z","count":1,"resetSeen":true}],` +
		`"counts":[{"source":"xid","xid":48,"n":1},{"source":"xid","xid":31,"n":1},{"source":"xid","xid":43,"n":1}],` +
		`"resets":{"n":1,"last":"2026-11-30T08:00:00Z"}}`
	if string(text) != want {
		t.Errorf("stored\n%s\nwant\n%s", text, want)
	}
	if text, _ = json.Marshal(health.State{}); string(text) != "{}" {
		t.Errorf("a healthy GPU is stored as %s", text)
	}
	var lost health.State
	if err := json.Unmarshal([]byte(`{"faults":[{"gi":-1,"resetSeen":true}]}`), &lost); err != nil {
		t.Fatal(err)
	}
	if lost, _ = lost.Heal(health.ActionRead); lost.Device(2).Health != health.Unhealthy {
		t.Error("a fault whose class was lost is healed by less than a reboot")
	}
}
