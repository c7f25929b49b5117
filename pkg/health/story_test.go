// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package health_test

import (
	"regexp"
	"testing"
	"time"

	"gpuslice/pkg/health"
)

// A story is a word over this alphabet, one letter for each thing that a State may be told.
var (
	observations = map[byte]health.Observation{
		'a': whole(48),                               // needs a reset
		'b': inside(48, 1),                           // needs a reset, in instance 1
		'c': whole(79),                               // needs a reboot
		'd': inside(151, 2),                          // needs a reboot, in instance 2
		'e': with(inside(31, 2), health.ActionOf(1)), // needs a reset because the driver says so, in instance 2
		'f': {Source: health.Recovery, Action: health.ActionOf(1)},
		'g': {Source: health.Unreachable},
		'h': {Source: health.RemapFailure},
		'm': inside(31, 2),                                         // an application's
		'n': with(inside(48, 1), health.ActionOf(0)),               // an application's because the driver says so
		'o': whole(43),                                             // information
		'p': {Source: health.Recovery, Action: health.ActionOf(0)}, // a clean read
	}
	evidences = map[byte]health.Evidence{
		'R': health.ResetSeen, 'N': health.ActionRead, 'L': health.DriverLoaded, 'B': health.Booted, 'W': health.Answered, 'C': health.Cleared,
	}
)

const alphabet = "abcdefghmnopRNLBWC"

func whole(xid uint64) health.Observation { return inside(xid, health.Whole) }

func inside(xid uint64, gi int) health.Observation {
	return health.Observation{Source: health.XID, XID: xid, GI: gi, CI: min(gi, 0)}
}

func with(o health.Observation, a health.RecoveryAction) health.Observation {
	o.Action = a
	return o
}

// The slow model, written from section 12: a fault is over when what was told since it last happened says so.
var (
	resetOver  = regexp.MustCompile(`[LBC]|R.*N`)
	rebootOver = regexp.MustCompile(`C|[LB].*W`)
	halfway    = regexp.MustCompile(`[RLB]`)
)

type fact struct {
	gi     int
	reboot bool
	last   int // its last time in the story
}

// culprits are the letters that make faults; e and f do only where nobody else is to blame.
var culprits = map[byte]fact{
	'a': {gi: -1}, 'b': {gi: 1}, 'c': {gi: -1, reboot: true}, 'd': {gi: 2, reboot: true},
	'e': {gi: 2}, 'f': {gi: -1}, 'g': {gi: -1, reboot: true}, 'h': {gi: -1},
}

// standing finds the faults at the end of a story, going through all of it every time.
func standing(story string) map[byte]fact {
	facts := map[byte]fact{}
	over := func(f fact, until int) bool {
		since := story[f.last+1 : until]
		return f.reboot && rebootOver.MatchString(since) || !f.reboot && resetOver.MatchString(since)
	}
	for i := range len(story) {
		letter := story[i]
		for l, f := range facts {
			if over(f, i) {
				delete(facts, l)
			}
		}
		f, ok := culprits[letter]
		if _, again := facts[letter]; !ok || !again && innocent(facts, story[:i], letter) {
			continue
		}
		f.last = i
		facts[letter] = f
	}
	for l, f := range facts {
		if over(f, len(story)) {
			delete(facts, l)
		}
	}
	return facts
}

// innocent says whether others are to blame for a recovery action; the action itself is a new report of their faults.
func innocent(facts map[byte]fact, before string, letter byte) bool {
	found := false
	for l, f := range facts {
		switch {
		case letter == 'e' && !halfway.MatchString(before[f.last+1:]):
			found = true
		case letter == 'f' && f.gi >= 0:
			f.last = len(before)
			facts[l], found = f, true
		}
	}
	return found
}

func modelDevice(facts map[byte]fact, gi int) health.Health {
	verdict := health.Healthy
	for _, f := range facts {
		switch {
		case gi == -1 || f.gi == -1 || f.gi == gi:
			return health.Unhealthy
		default:
			verdict = health.ResetPending
		}
	}
	return verdict
}

func tell(s health.State, letter byte, now time.Time) health.State {
	if o, ok := observations[letter]; ok {
		s, _ = s.Observe(health.Policy{}, o, now)
	} else {
		s, _ = s.Heal(evidences[letter])
	}
	return s
}

func compare(t *testing.T, s health.State, story string) {
	t.Helper()
	facts := standing(story)
	for _, gi := range []int{health.Whole, 1, 2, 3} {
		if got, want := s.Device(gi), modelDevice(facts, gi); got.Health != want || (got.Reason == "") != (want == health.Healthy) {
			t.Fatalf("story %s: device %d is %s (%s), want %s", story, gi, got.Health, got.Reason, want)
		}
	}
}

// Longer stories that say something more: a fault that returns beside others is still its own.
func TestLongerStories(t *testing.T) {
	for _, story := range []string{"eRbeN", "eRbeRN", "fRbfN", "fRbfNRN", "bRfNRN", "eRbeNWL", "abcdefghRNLWBWC", "cBgWBW", "abRaNbRN", "bRebRNNR"} {
		compare(t, told(story), story)
	}
}

// H12: over all stories of up to four letters the State and the slow model judge every device alike. So severity is sticky,
// two faults in either order are two faults, and exactly the evidence of section 12 heals.
func TestEveryStory(t *testing.T) {
	if len(alphabet) != len(observations)+len(evidences) {
		t.Fatal("the alphabet lacks a letter")
	}
	n := 0
	var walk func(s health.State, story string)
	walk = func(s health.State, story string) {
		n++
		compare(t, s, story)
		if len(story) == 4 {
			return
		}
		for i := range len(alphabet) {
			walk(tell(s, alphabet[i], start.Add(time.Duration(len(story))*time.Hour)), story+alphabet[i:i+1])
		}
	}
	walk(health.State{}, "")
	if n != 1+18+18*18+18*18*18+18*18*18*18 {
		t.Errorf("%d stories", n)
	}
}

// Two faults in either order, then any three evidences, with a restart and a day between each two: the same verdicts.
func TestTwoFaults(t *testing.T) {
	const faults, proofs = "abcdefgh", "RNLBWC"
	for i := range len(faults) * len(faults) {
		for j := range len(proofs) * len(proofs) * len(proofs) {
			story := string([]byte{
				faults[i/len(faults)], faults[i%len(faults)],
				proofs[j/36], proofs[j/6%6], proofs[j%6],
			})
			s := health.State{}
			for day := range len(story) {
				s = restarted(t, tell(s, story[day], start.AddDate(0, 0, day)))
			}
			compare(t, s, story)
		}
	}
}
