// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devicestest

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuslice/pkg/devices"
)

// kind is a simulator that is too friendly: tests that pass on it prove nothing. Each embeds the honest one and is kind in
// one way only.
type kind struct{ devices.Driver }

// kinds lists the ways in which a simulator may be too kind, and the lines that each breaks: all of them, and no other.
var kinds = []struct {
	name     string
	wrap     func(n simNode) Subject
	caughtBy []string
}{
	{"accepts overlap", wrapping(newPhantoms(true)), []string{"overlap is refused"}},
	{"accepts more than the maximum", wrapping(newPhantoms(false)), []string{"no more instances of a profile than its maximum"}},
	{"destroys a GI with its CI", wrapping(newGIBreaker), []string{"a GPU instance with a compute instance stays"}},
	{"destroys a CI under a process", wrapping(newCIBreaker), []string{"a process keeps its compute instance"}},
	{"turns the mode off with instances", wrapping(newModeBreaker), []string{"the mode stays on while there are instances"}},
	{"has no pending mode", wrapping(newEager), []string{
		"the mode is pending where a reset is needed", "a reset applies the pending mode",
	}},
	{"ignores other sessions", shareSession, []string{
		"another session's GPU keeps its mode", "another session's MIG device stays",
	}},
	{"finds UUIDs while a GPU is lost", wrapping(newFinder), []string{"look-ups by UUID fail while a GPU is lost"}},
	{"shows processes of every namespace", fromHost, []string{"processes outside the caller's PID namespace are left out"}},
	{"shows a parent to everybody", showParent, []string{"a GPU in MIG mode tells its memory to the privileged only"}},
	{"counts GPU instances", wrapping(newCounter), []string{
		"ids follow the placement, not the order", "MIG devices are the compute instances",
		// The processes of these two lines run on ids that only the counter knows.
		"a process keeps its compute instance", "processes outside the caller's PID namespace are left out",
	}},
	{"keeps stale handles", wrapping(newHoarder), []string{"handles end with what they name"}},
}

func TestContractCatchesKindSimulators(t *testing.T) {
	if len(kinds) != 12 {
		t.Fatalf("%d kind simulators, want 12", len(kinds))
	}
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			r := newRecord()
			Check(r, func() Subject { return k.wrap(newNode(t)) })
			for _, line := range slices.Sorted(maps.Keys(r.broken)) {
				t.Logf("caught by %q: %s", line, r.broken[line])
			}
			if diff := cmp.Diff(slices.Sorted(slices.Values(k.caughtBy)), slices.Sorted(maps.Keys(r.broken))); diff != "" {
				t.Errorf("lines that caught it (-want +got):\n%s", diff)
			}
		})
	}
}

// wrapping puts every session of a node into a kind driver that knows the node.
func wrapping(wrap func(simNode, kind) devices.Driver) func(simNode) Subject {
	return func(n simNode) Subject {
		s := n.subject()
		s.Open = func(c Client) devices.Driver { return wrap(n, kind{n.open(c)}) }
		return s
	}
}

// fromHost opens every session in the host's PID namespace.
func fromHost(n simNode) Subject {
	s := n.subject()
	s.Open = func(c Client) devices.Driver {
		c.PIDNamespace = ""
		return n.open(c)
	}
	return s
}
