// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package timeslice_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpuslice/pkg/timeslice"
)

func TestParseShare(t *testing.T) {
	for _, tc := range []struct {
		id     string
		device string
		n      int
		ok     bool
		why    string
	}{
		{"GPU-1::0", "GPU-1", 0, true, "the first share"},
		{"MIG-7::12", "MIG-7", 12, true, "shares of MIG devices"},
		{"GPU-1", "", 0, false, "the device itself"},
		{"GPU-1::", "", 0, false, "no number"},
		{"GPU-1::-1", "", 0, false, "numbers start at 0"},
		{"GPU-1::01", "", 0, false, "one share, one spelling"},
		{"::1", "", 0, false, "no device"},
	} {
		s, ok := timeslice.ParseShare(tc.id)
		if ok != tc.ok || s != (timeslice.Share{Device: tc.device, N: tc.n}) {
			t.Errorf("ParseShare(%q) = %v, %v; want %s: %s", tc.id, s, ok, tc.device, tc.why)
		}
		if ok && s.String() != tc.id {
			t.Errorf("%q prints as %q", tc.id, s)
		}
	}
}

func TestTwoSharesOfOneGPUReachTheRuntimeOnce(t *testing.T) {
	got := timeslice.Devices([]string{"GPU-b::1", "GPU-a::0", "GPU-b::0", "GPU-c"})
	if diff := cmp.Diff([]string{"GPU-b", "GPU-a", "GPU-c"}, got); diff != "" {
		t.Error(diff)
	}
}

// ids turns "a0 a1 b0" into share ids.
func ids(text string) []string {
	out := []string{}
	for f := range strings.FieldsSeq(text) {
		out = append(out, "GPU-"+f[:1]+"::"+f[1:])
	}
	return out
}

func TestPrefer(t *testing.T) {
	for _, tc := range []struct {
		name      string
		policy    timeslice.Policy
		available string
		required  string
		size      int
		want      string
	}{
		{"spread takes the least used GPU", timeslice.Spread, "a3 b1 b2 b3", "", 1, "b1"},
		{"pack takes the most used GPU", timeslice.Pack, "a3 b1 b2 b3", "", 1, "a3"},
		{"spread gives two shares of two GPUs (S09)", timeslice.Spread, "a0 a1 a2 b0 b1 b2 b3", "", 2, "b0 a0"},
		{"spread takes two of one GPU when there is no other (S09)", timeslice.Spread, "b0 b1 b2", "", 2, "b0 b1"},
		{"pack fills one GPU (S10)", timeslice.Pack, "a0 a1 a2 a3 b0 b1 b2 b3", "", 4, "a0 a1 a2 a3"},
		{"what is required stays and counts", timeslice.Spread, "a0 a1 b0 b1", "a1", 2, "a1 b0"},
		{"ties go by name", timeslice.Spread, "b0 a0", "", 1, "a0"},
		{"never more than there is", timeslice.Spread, "a0", "", 3, "a0"},
		{"numbers order as numbers", timeslice.Pack, "a10 a9", "", 1, "a9"},
	} {
		r := timeslice.Request{Available: ids(tc.available), Required: ids(tc.required), Size: tc.size, Replicas: 4}
		if diff := cmp.Diff(ids(tc.want), timeslice.Prefer(tc.policy, r)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

// Every request over two GPUs of three shares each: the answer has the right size, repeats nothing, invents nothing.
func TestPreferIsAlwaysLegal(t *testing.T) {
	all := ids("a0 a1 a2 b0 b1 b2")
	for set := range 1 << len(all) {
		available := []string{}
		for i, id := range all {
			if set&(1<<i) != 0 {
				available = append(available, id)
			}
		}
		for size := 0; size <= len(available); size++ {
			for need := range min(size, len(available)) + 1 {
				for _, policy := range []timeslice.Policy{timeslice.Spread, timeslice.Pack} {
					r := timeslice.Request{Available: available, Required: available[:need], Size: size, Replicas: 3}
					got := timeslice.Prefer(policy, r)
					sorted := slices.Compact(slices.Sorted(slices.Values(got)))
					if len(got) != size || len(sorted) != size {
						t.Fatalf("%s %v: got %v", policy, r, got)
					}
					for _, id := range got {
						if !slices.Contains(available, id) {
							t.Fatalf("%s %v: %s was not offered", policy, r, id)
						}
					}
					if !cmp.Equal(got[:need], available[:need]) {
						t.Fatalf("%s %v: required ids left out of %v", policy, r, got)
					}
				}
			}
		}
	}
}

func TestParsePolicy(t *testing.T) {
	if p, err := timeslice.ParsePolicy(""); err != nil || p != timeslice.Spread {
		t.Errorf("default is %q, %v", p, err)
	}
	if _, err := timeslice.ParsePolicy("strict"); err == nil || !strings.Contains(err.Error(), "spread, pack") {
		t.Errorf("unknown policy: %v does not name the valid ones", err)
	}
}

func TestInterval(t *testing.T) {
	for i, name := range []string{"default", "short", "medium", "long"} {
		got, err := timeslice.ParseInterval(name)
		if err != nil || int(got) != i || got.String() != name {
			t.Errorf("%s is %d %s, %v; the driver's number is %d", name, got, got, err, i)
		}
	}
	if i, err := timeslice.ParseInterval(""); err != nil || i != timeslice.Default {
		t.Errorf("nothing is %s, %v", i, err)
	}
	if _, err := timeslice.ParseInterval("Long"); err == nil || !strings.Contains(err.Error(), "default, short, medium, long") {
		t.Errorf("a name that there is not: %v", err)
	}
	if got := timeslice.Interval(7).String(); got != "7" {
		t.Errorf("a number that there is not prints %q", got)
	}
}
