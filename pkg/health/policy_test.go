// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package health_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"gpuslice/pkg/health"
)

// The table of section 12 of the design, typed from it.
var (
	informationXIDs = []uint64{43, 44, 63, 92, 93, 121, 137, 141, 147, 148, 157, 160, 161}
	resetXIDs       = []uint64{46, 48, 62, 64, 74, 95, 109, 110, 119, 120, 136, 140, 143, 144, 145, 146, 149, 150, 155, 156, 158}
	rebootXIDs      = []uint64{79, 151}
)

func designClass(xid uint64) health.Class {
	switch {
	case slices.Contains(informationXIDs, xid):
		return health.Information
	case slices.Contains(resetXIDs, xid):
		return health.Reset
	case slices.Contains(rebootXIDs, xid):
		return health.Reboot
	default:
		return health.Application
	}
}

// H03: every XID has the class of the design, and every one that it does not list is an application's.
func TestTable(t *testing.T) {
	for xid := range uint64(2000) {
		if got := (health.Policy{}).XID(xid); got != designClass(xid) {
			t.Errorf("XID %d is %s, want %s", xid, got, designClass(xid))
		}
	}
	for _, xid := range []uint64{13, 31, 45, 68, 69, 94, 1<<64 - 1} {
		if got := (health.Policy{}).XID(xid); got != health.Application {
			t.Errorf("XID %d is %s, want application", xid, got)
		}
	}
}

// What other sources mean without a recovery action.
func TestSources(t *testing.T) {
	for source, want := range map[health.Source]health.Class{
		health.RemapFailure: health.Reset,
		health.Unreachable:  health.Reboot,
		health.Reported:     health.Reboot,
		health.RemapPending: health.Information,
		health.Uncorrected:  health.Information,
		health.Throttle:     health.Information,
		health.Recovery:     health.Information,
		"":                  health.Reboot,
		"a later version's": health.Reboot,
	} {
		if got := (health.Policy{}).Class(health.Observation{Source: source}); got != want {
			t.Errorf("%q is %s, want %s", source, got, want)
		}
	}
}

// The recovery action decides over the table in both directions; typed by hand from section 12 and nvml.h.
func TestRecoveryActionDecides(t *testing.T) {
	absent, none, reset, reboot := health.ActionAbsent, health.ActionOf(0), health.ActionOf(1), health.ActionOf(2)
	drain, drainAndReset, later := health.ActionOf(3), health.ActionOf(4), health.ActionOf(7)
	for _, tc := range []struct {
		why    string
		source health.Source
		xid    uint64
		action health.RecoveryAction
		want   health.Class
	}{
		{"absent is not none: the table", health.XID, 48, absent, health.Reset},
		{"absent is not none: the table", health.XID, 79, absent, health.Reboot},
		{"none lowers", health.XID, 48, none, health.Application},
		{"none lowers", health.XID, 79, none, health.Application},
		{"none lowers a row remap failure", health.RemapFailure, 0, none, health.Application},
		{"none raises nothing", health.XID, 43, none, health.Information},
		{"none is what an application's has anyway", health.XID, 31, none, health.Application},
		{"reset raises an application's", health.XID, 31, reset, health.Reset},
		{"reset raises information", health.XID, 63, reset, health.Reset},
		{"reset raises what is polled", health.Uncorrected, 0, reset, health.Reset},
		{"reset lowers", health.XID, 79, reset, health.Reset},
		{"reboot raises", health.XID, 48, reboot, health.Reboot},
		{"draining", health.XID, 31, drain, health.Reset},
		{"draining", health.XID, 31, drainAndReset, health.Reset},
		{"an action that nvml.h 13.4 calls a system reboot", health.XID, 31, later, health.Reboot},
		{"the action alone", health.Recovery, 0, reset, health.Reset},
		{"the action alone", health.Recovery, 0, reboot, health.Reboot},
		{"XID 154 says what the action says", health.XID, 154, reset, health.Reset},
		{"XID 154 says what the action says", health.XID, 154, none, health.Application},
		{"XID 154 where none can be read", health.XID, 154, absent, health.Application},
		{"a lost GPU has no action that counts", health.Unreachable, 0, none, health.Reboot},
		{"a lost GPU has no action that counts", health.Unreachable, 0, reset, health.Reboot},
		{"the driver does not know what others saw", health.Reported, 0, none, health.Reboot},
		{"a number that no action has", health.XID, 31, health.RecoveryAction(-5), health.Reboot},
	} {
		o := health.Observation{Source: tc.source, XID: tc.xid, Action: tc.action, GI: health.Whole, CI: health.Whole}
		if got := (health.Policy{}).Class(o); got != tc.want {
			t.Errorf("%s: %s XID %d, action %s: %s, want %s", tc.why, tc.source, tc.xid, tc.action, got, tc.want)
		}
	}
}

// An admin's override is heard together with the recovery action: the more severe of both, but for the driver's none.
func TestOverrides(t *testing.T) {
	words := map[string]health.Class{
		"ignore": health.Information, "application": health.Application, "reset": health.Reset, "reboot": health.Reboot,
	}
	for word, class := range words {
		for _, xid := range []uint64{43, 31, 109, 79} { // one of each class
			p, err := health.ParsePolicy(map[string]string{map[uint64]string{43: "43", 31: "31", 109: "109", 79: "79"}[xid]: word})
			if err != nil {
				t.Fatal(err)
			}
			for action, want := range map[health.RecoveryAction]health.Class{
				health.ActionAbsent: class,
				health.ActionNone:   class,
				health.ActionReset:  max(class, health.Reset),
				health.ActionReboot: health.Reboot,
			} {
				if got := p.Class(health.Observation{Source: health.XID, XID: xid, Action: action}); got != want {
					t.Errorf("XID %d as %s, action %s: %s, want %s", xid, word, action, got, want)
				}
			}
			for other := range uint64(200) {
				if got := p.XID(other); other != xid && got != designClass(other) {
					t.Errorf("XID %d is %s because XID %d is overridden", other, got, xid)
				}
			}
		}
	}
}

// P5: a bad override is refused with the valid values, together with all others.
func TestParsePolicy(t *testing.T) {
	for _, tc := range []struct {
		why       string
		overrides map[string]string
		want      []string // parts of the error; none: it is accepted
	}{
		{"nothing", nil, nil},
		{"numbers as configurations have them", map[string]string{"0": "ignore", "4294967295": "reboot"}, nil},
		{"a number twice with one meaning", map[string]string{"79": "reset", "079": "reset"}, nil},
		{"a number twice with two", map[string]string{"79": "reset", "079": "ignore"}, []string{"XID 79 is there twice, as ignore and as reset"}},
		{"an unknown class", map[string]string{"79": "fatal"}, []string{`XID 79: "fatal" is not one of ignore, application, reset, reboot`}},
		{"the name of the class that ignore gives", map[string]string{"79": "information"}, []string{"ignore, application, reset, reboot"}},
		{"another case", map[string]string{"79": "Reset"}, []string{`"Reset"`}},
		{"no class", map[string]string{"79": ""}, []string{`""`}},
		{"no number", map[string]string{"XID79": "reset"}, []string{`XID "XID79" is not a number from 0 to 4294967295`}},
		{"too large", map[string]string{"4294967296": "reset"}, []string{"4294967296"}},
		{"below zero", map[string]string{"-1": "reset"}, []string{"-1"}},
		{"all at once", map[string]string{"a": "reset", "1": "b", "2": "c"}, []string{`"a"`, `"b"`, `"c"`}},
	} {
		p, err := health.ParsePolicy(tc.overrides)
		if (err != nil) != (len(tc.want) > 0) {
			t.Errorf("%s: %v", tc.why, err)
			continue
		}
		for _, part := range tc.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %q in it", tc.why, err, part)
			}
		}
		if err != nil && p.XID(79) != health.Reboot {
			t.Errorf("%s: a policy that is refused is in force", tc.why)
		}
	}
}

// Classes are written and read by name, and nothing else is.
func TestClassText(t *testing.T) {
	names := map[health.Class]string{
		health.Information: "information", health.Application: "application", health.Reset: "reset", health.Reboot: "reboot",
	}
	for class, name := range names {
		if text, err := class.MarshalText(); string(text) != name || err != nil || class.String() != name {
			t.Errorf("%d is written %s, %v; want %s", int(class), text, err, name)
		}
		if got, err := health.ParseClass(name); got != class || err != nil {
			t.Errorf("%s is read as %s, %v", name, got, err)
		}
	}
	if text, _ := health.Class(9).MarshalText(); string(text) != "reboot" {
		t.Errorf("a class that is none is written %s, want the most severe", text)
	}
	for _, name := range []string{"", "ignore", "RESET", "class 9"} {
		if got, err := health.ParseClass(name); err == nil || !strings.Contains(err.Error(), "information, application, reset, reboot") {
			t.Errorf("%q is read as %s, %v", name, got, err)
		}
	}
	if !slices.IsSorted([]health.Class{health.Information, health.Application, health.Reset, health.Reboot}) || len(slices.Collect(maps.Keys(names))) != 4 {
		t.Error("classes are not in the order of their severity")
	}
}
