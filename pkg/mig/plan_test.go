// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package mig_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpuslice/pkg/mig"
)

func state(l mig.Layout, on bool) mig.State {
	s := mig.State{GPU: "gpu-0", Mode: mig.Mode{Current: on, Pending: on}}
	for i, slot := range l {
		s.Instances = append(s.Instances, mig.Instance{Slot: slot, GI: 100 + i, UUID: "MIG-" + slot.String()})
	}
	return s
}

func TestDiff(t *testing.T) {
	g := a100(t)
	for _, tc := range []struct {
		name       string
		have       string
		on         bool
		want       string
		wantOn     bool
		busy       string
		reset      bool
		plan       string
		mayRun     bool
		needsReset bool
	}{
		{
			name: "only the difference is touched (M12)", have: "[4g.20gb@0 2g.10gb@4]", on: true, want: "[4g.20gb@0 1g.5gb@4 1g.5gb@5]", wantOn: true, busy: "[4g.20gb@0]",
			plan: "plan gpu-0: destroy 2g.10gb@4; create 1g.5gb@4; create 1g.5gb@5", mayRun: true,
		},
		{
			name: "a busy slice in the way stops everything on the GPU (P2)", have: "[4g.20gb@0 2g.10gb@4]", on: true, want: "[7g.40gb@0]", wantOn: true, busy: "[4g.20gb@0]",
			plan: "plan gpu-0: destroy 4g.20gb@0; destroy 2g.10gb@4; create 7g.40gb@0\nblocked gpu-0: 4g.20gb@0 in use by team-a/trainer",
		},
		{name: "nothing to do", have: "[3g.20gb@4]", on: true, want: "[3g.20gb@4]", wantOn: true, plan: "plan gpu-0: "},
		{name: "mode on before instances", have: "[]", want: "[7g.40gb@0]", wantOn: true, plan: "plan gpu-0: set mig=on; create 7g.40gb@0", mayRun: true},
		{name: "mode off after instances", have: "[7g.40gb@0]", on: true, want: "[]", plan: "plan gpu-0: destroy 7g.40gb@0; set mig=off", mayRun: true},
		{name: "a mode that needs a reset waits", have: "[]", want: "[7g.40gb@0]", wantOn: true, reset: true, plan: "plan gpu-0: set mig=on; create 7g.40gb@0", needsReset: true},
	} {
		have := state(parse(t, g, tc.have), tc.on)
		have.ModeNeedsReset = tc.reset
		used := mig.InUse{Instances: map[int][]string{}}
		for _, inst := range have.Instances {
			if slices.ContainsFunc(busySlots(t, g, tc.busy), inst.Slot.Same) {
				used.Instances[inst.GI] = []string{"team-a/trainer"}
			}
		}
		plan := mig.Diff(have, mig.Want{MIG: tc.wantOn, Layout: parse(t, g, tc.want)}, used)
		if plan.String() != tc.plan || plan.Runnable() != tc.mayRun || plan.NeedsReset != tc.needsReset {
			t.Errorf("%s:\ngot  %s (runnable %v, needs reset %v)\nwant %s", tc.name, plan, plan.Runnable(), plan.NeedsReset, tc.plan)
		}
	}
}

func busySlots(t *testing.T, g mig.Geometry, text string) mig.Layout {
	if text == "" {
		return nil
	}
	return parse(t, g, text)
}

func TestDiffReplacesWhatIsNotUsable(t *testing.T) {
	g := a100(t)
	have := state(parse(t, g, "[3g.20gb@4]"), true)
	have.Instances[0].CI, have.Instances[0].UUID = -1, ""
	plan := mig.Diff(have, mig.Want{MIG: true, Layout: parse(t, g, "[3g.20gb@4]")}, mig.InUse{})
	if got := plan.String(); got != "plan gpu-0: destroy 3g.20gb@4; create 3g.20gb@4" {
		t.Errorf("a GPU instance without compute instance: %s", got)
	}
}

// A plan explains what goes, and lists what stays with its holders.
func TestPlanSaysWhy(t *testing.T) {
	g := a100(t)
	for _, tc := range []struct {
		name, have, want string
		on               bool
		busy             string
		spoil            func(*mig.Instance) // of the first instance
		kept, reasons    string
	}{
		{
			"what is in the way of something larger", "[3g.20gb@4 1g.5gb@0 1g.5gb@1 1g.5gb@3]", "[3g.20gb@4 2g.10gb@0]", true, "[3g.20gb@4]", nil,
			"3g.20gb@4 in use by team-a/trainer",
			"destroy 1g.5gb@0: is in the way of 2g.10gb@0; destroy 1g.5gb@1: is in the way of 2g.10gb@0; destroy 1g.5gb@3: not in the layout",
		},
		{
			"an idle instance that is given up for a cut that has no other place", "[3g.20gb@0]", "[4g.20gb@0 3g.20gb@4]", true, "", nil,
			"", "destroy 3g.20gb@0: moves to 3g.20gb@4, is in the way of 4g.20gb@0",
		},
		{
			"two of three move", "[1g.5gb@0 1g.5gb@1 1g.5gb@2]", "[1g.5gb@5 1g.5gb@6]", true, "", nil,
			"", "destroy 1g.5gb@0: moves to 1g.5gb@5; destroy 1g.5gb@1: moves to 1g.5gb@6; destroy 1g.5gb@2: not in the layout",
		},
		{
			"a compute instance is missing", "[3g.20gb@4]", "[3g.20gb@4]", true, "", func(i *mig.Instance) { i.CI, i.UUID = -1, "" },
			"", "destroy 3g.20gb@4: it has no compute instance",
		},
		{
			"compute instances that do not fill it", "[3g.20gb@4]", "[3g.20gb@4]", true, "", func(i *mig.Instance) { i.Partial = true },
			"", "destroy 3g.20gb@4: its compute instances are smaller than itself",
		},
		{"MIG goes off", "[7g.40gb@0]", "[]", false, "", nil, "", "destroy 7g.40gb@0: the layout is without MIG"},
		{"nothing goes", "[3g.20gb@4]", "[3g.20gb@4 1g.5gb@0]", true, "", nil, "3g.20gb@4", ""},
	} {
		have := state(parse(t, g, tc.have), true)
		used := mig.InUse{Instances: map[int][]string{}}
		for i, inst := range have.Instances {
			if slices.ContainsFunc(busySlots(t, g, tc.busy), inst.Slot.Same) {
				used.Instances[inst.GI] = []string{"team-a/trainer"}
			}
			if i == 0 && tc.spoil != nil {
				tc.spoil(&have.Instances[i])
			}
		}
		plan := mig.Diff(have, mig.Want{MIG: tc.on, Layout: parse(t, g, tc.want)}, used)
		if got := joined(plan.Kept); got != tc.kept {
			t.Errorf("%s: keeps %q, want %q", tc.name, got, tc.kept)
		}
		if got := joined(plan.Reasons()); got != tc.reasons {
			t.Errorf("%s:\ngot  %s\nwant %s", tc.name, got, tc.reasons)
		}
	}
}

func joined[T fmt.Stringer](all []T) string {
	texts := make([]string, len(all))
	for i, x := range all {
		texts[i] = x.String()
	}
	return strings.Join(texts, "; ")
}

func TestDiffHeldGPUKeepsItsMode(t *testing.T) {
	plan := mig.Diff(mig.State{GPU: "gpu-0"}, mig.Want{MIG: true}, mig.InUse{GPU: []string{"pid 4711"}})
	if plan.Runnable() || !strings.Contains(plan.String(), "blocked gpu-0: gpu-0 in use by pid 4711") {
		t.Errorf("plan is %s", plan)
	}
}

// recorder is a strict partitioner: it fails at the chosen step and remembers what it did.
type recorder struct {
	failAt int
	did    []string
}

var errRefused = errors.New("refused")

func (r *recorder) do(what string) error {
	if len(r.did) == r.failAt {
		return errRefused
	}
	r.did = append(r.did, what)
	return nil
}

func (r *recorder) SetMode(_ context.Context, on bool) error {
	return r.do(mig.SetMode{On: on}.String())
}

func (r *recorder) Reset(context.Context) error {
	return r.do(mig.Reset{}.String())
}

func (r *recorder) Create(_ context.Context, s mig.Slot) error {
	return r.do(mig.Create{Slot: s}.String())
}

func (r *recorder) Destroy(_ context.Context, i mig.Instance) error {
	return r.do(mig.Destroy{Instance: i}.String())
}

func TestApplyStopsAtTheFirstFailure(t *testing.T) {
	g := a100(t)
	plan := mig.Diff(state(parse(t, g, "[3g.20gb@0]"), true), mig.Want{MIG: true, Layout: parse(t, g, "[1g.5gb@0 1g.5gb@1]")}, mig.InUse{})
	for failAt := range len(plan.Steps) + 1 {
		r := &recorder{failAt: failAt}
		err := mig.Apply(t.Context(), r, plan)
		if len(r.did) != failAt || (err == nil) != (failAt == len(plan.Steps)) {
			t.Errorf("failing at step %d: did %v, %v", failAt, r.did, err)
		}
		if err != nil && (!errors.Is(err, errRefused) || !strings.Contains(err.Error(), plan.Steps[failAt].String()+" on gpu-0")) {
			t.Errorf("failing at step %d: %v does not name step and GPU", failAt, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := &recorder{failAt: 99}
	if err := mig.Apply(ctx, r, plan); !errors.Is(err, context.Canceled) || len(r.did) != 0 {
		t.Errorf("cancelled: did %v, %v", r.did, err)
	}
}
