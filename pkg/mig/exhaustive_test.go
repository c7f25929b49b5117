// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build !race

package mig_test

import (
	"fmt"
	"math/bits"
	"os"
	"runtime/debug"
	"sync/atomic"
	"testing"

	"gpuslice/pkg/mig"
)

// allEnv asks for every plan to be carried out on the simulated driver, which takes minutes.
const allEnv = "GPUSLICE_EVERY_PLAN"

// shape is one kind of GPU with what is tried on it. The shards are subtests, so that -run can spread them over processes.
type shape struct {
	name    string
	model   string
	g       mig.Geometry
	with    func(mig.Profile) bool
	layouts int
	// allBusy tries every set of busy instances, else none and each single one.
	allBusy bool
	// stride is how many pairs of layouts share one that is carried out on the driver.
	stride int
}

const shards = 8

func shapes(t *testing.T) []shape {
	return []shape{
		{"a30", "a30-24gb", a30(t), every, 84, true, 1},
		{"a100-plain", "a100-sxm4-40gb", a100(t), mig.Profile.Plain, 723, true, 1},
		{"a100", "a100-sxm4-40gb", a100(t), every, 2319, false, 97},
		{"rtx-pro", "rtx-pro-6000-blackwell-se-96gb", rtxPro(t), every, 1249, false, 11},
	}
}

// sharded runs a test of a shape in parallel parts; each gets a driver of its own.
func sharded(t *testing.T, run func(t *testing.T, c shape, o *oracle, shard int) tally) {
	if testing.Short() {
		t.Skip("millions of plans take half a minute")
	}
	before := debug.SetGCPercent(1600) // millions of plans are garbage at once
	t.Cleanup(func() { debug.SetGCPercent(before) })
	for _, c := range shapes(t) {
		t.Run(c.name, func(t *testing.T) {
			o := newOracle(t, c.g, c.with)
			if len(o.placed) != c.layouts {
				t.Fatalf("%d layouts, want %d", len(o.placed), c.layouts)
			}
			var plans, refused, inUse atomic.Int64
			t.Cleanup(func() {
				t.Logf("%d layouts, %d with enough media engines, %d plans, %d of them refused because of a busy instance, %d attempts to destroy one",
					len(o.placed), len(o.legal), plans.Load(), refused.Load(), inUse.Load())
			})
			for shard := range shards {
				t.Run(fmt.Sprint(shard), func(t *testing.T) {
					t.Parallel()
					done := run(t, c, o, shard)
					plans.Add(int64(done.plans))
					refused.Add(int64(done.refused))
					inUse.Add(int64(done.inUse))
				})
			}
		})
	}
}

// tally counts what happened.
type tally struct{ plans, refused, inUse int }

// Every plan from every layout to every layout, for busy instances of every kind: refused exactly when a busy instance is
// not in the layout that is wanted, and then it names those and no other. What is not refused is walked step by step over
// the answers that the driver gave to every single step from every legal layout, and ends where it should.
func TestEveryPlan(t *testing.T) {
	sharded(t, func(t *testing.T, c shape, o *oracle, shard int) tally {
		w := walker{oracle: o, answers: newSeam(t, c.model).explore(t, o.slots)}
		if len(w.answers) != len(o.legal) {
			t.Fatalf("the driver allows %d layouts, brute force %d", len(w.answers), len(o.legal))
		}
		layouts := make([]mig.Layout, len(o.legal))
		for i, bits := range o.legal {
			layouts[i] = o.layout(bits)
		}
		for i := shard; i < len(o.legal); i += shards {
			from := o.legal[i]
			have := o.state(from)
			for _, busy := range busySets(from, c.allBusy) {
				used := o.inUse(busy)
				for j, to := range o.legal {
					plan := mig.Diff(have, mig.Want{MIG: true, Layout: layouts[j]}, used)
					if err := w.check(plan, from, to, busy); err != nil {
						t.Fatalf("%s to %s, busy %s: %v\n%s", o.layout(from), o.layout(to), o.layout(busy), err, plan)
					}
				}
			}
		}
		return w.tally
	})
}

// busySets lists subsets of a set of bits: all of them, or the empty one and those of one bit.
func busySets(of uint64, all bool) []uint64 {
	sets := []uint64{}
	for sub := of; ; sub = (sub - 1) & of {
		if all || bits.OnesCount64(sub) <= 1 {
			sets = append(sets, sub)
		}
		if sub == 0 {
			return sets
		}
	}
}

// state is a GPU that is cut so; the id of an instance is the number of its slot.
func (o *oracle) state(bits uint64) mig.State {
	s := mig.State{GPU: "gpu-0", Mode: mig.Mode{Current: true, Pending: true}}
	for i, slot := range o.slots {
		if bits&(1<<i) != 0 {
			s.Instances = append(s.Instances, mig.Instance{Slot: slot, GI: i, UUID: "MIG-" + slot.String()})
		}
	}
	return s
}

func (o *oracle) inUse(busy uint64) mig.InUse {
	used := mig.InUse{Instances: map[int][]string{}}
	for i := range o.slots {
		if busy&(1<<i) != 0 {
			used.Instances[i] = []string{"team-a/trainer"}
		}
	}
	return used
}

// walker follows plans over the driver's answers.
type walker struct {
	*oracle
	answers answers
	tally
}

func (w *walker) check(plan mig.Plan, from, to, busy uint64) error {
	w.plans++
	inTheWay := uint64(0)
	for _, b := range plan.Blocked {
		inTheWay |= w.named(b.What)
	}
	kept := uint64(0)
	for _, k := range plan.Kept {
		kept |= w.at(k.Slot)
	}
	switch {
	case inTheWay != busy&^to:
		return fmt.Errorf("blocked by %s, want %s", w.layout(inTheWay), w.layout(busy&^to))
	case plan.Runnable() != (inTheWay == 0 && from != to) || plan.NeedsReset:
		return fmt.Errorf("runnable is %v", plan.Runnable())
	case kept != from&to:
		return fmt.Errorf("keeps %s, want %s", w.layout(kept), w.layout(from&to))
	case inTheWay != 0:
		w.refused++
	}
	at := from
	for _, step := range plan.Steps {
		switch s := step.(type) {
		case mig.Destroy:
			gone := w.at(s.Instance.Slot)
			if at&^to&gone == 0 {
				return fmt.Errorf("%s: it is wanted, or not there", s)
			}
			if busy&gone != 0 && inTheWay == 0 {
				w.tally.inUse++
				return fmt.Errorf("%s: it is busy", s)
			}
			at &^= gone
		case mig.Create:
			made := w.at(s.Slot)
			if w.answers[at]&made == 0 {
				return fmt.Errorf("%s: the driver refuses it beside %s", s, w.layout(at))
			}
			at |= made
		default:
			return fmt.Errorf("%s: nothing else is to be done", s)
		}
	}
	if at != to {
		return fmt.Errorf("ends in %s", w.layout(at))
	}
	return nil
}

// at is the bit of a slot.
func (o *oracle) at(s mig.Slot) uint64 { return 1 << o.bit[s.Profile.ID][s.Start] }

func (o *oracle) named(name string) uint64 {
	for i := range o.slots {
		if o.names[i] == name {
			return 1 << i
		}
	}
	return 0
}

// The same plans carried out on the simulated driver, each from what it reports, read back at the end, while a process runs
// on every instance that both layouts share: the most that can be busy without a refusal, so what fewer holders would let
// happen is among it. Where the pairs are too many every so many-th is taken, unless all are asked for.
func TestEveryPlanApplied(t *testing.T) {
	sharded(t, func(t *testing.T, c shape, o *oracle, shard int) tally {
		s, done, stride := newSeam(t, c.model), tally{}, c.stride
		if os.Getenv(allEnv) != "" {
			stride = 1
		}
		// Out and back along every pair i < j is every ordered pair.
		for i := shard; i < len(o.legal); i += shards {
			s.visit(t, c.g, o, o.legal[i])
			for j := i + 1 + i%stride; j < len(o.legal); j += stride {
				s.visit(t, c.g, o, o.legal[j])
				s.visit(t, c.g, o, o.legal[i])
				done.plans += 2
			}
		}
		done.inUse = s.inUse
		return done
	})
}

// visit goes from what the driver reports to a layout.
func (s *seam) visit(t *testing.T, g mig.Geometry, o *oracle, bits uint64) {
	have, to := s.state(t, g), o.layout(bits)
	from := o.bits(have.Layout())
	used := mig.InUse{Instances: map[int][]string{}}
	for _, inst := range have.Instances {
		if o.at(inst.Slot)&bits != 0 {
			used.Instances[inst.GI] = []string{"team-a/trainer"}
		}
	}
	s.occupy(t, o.set(from&bits))
	plan := mig.Diff(have, mig.Want{MIG: true, Layout: to}, used)
	if len(plan.Blocked) > 0 {
		t.Fatalf("%s to %s: %s", have.Layout(), to, plan)
	}
	if err := mig.Apply(t.Context(), s, plan); err != nil {
		t.Fatalf("%s to %s: %v", have.Layout(), to, err)
	}
	s.vacate(t)
	if got := s.state(t, g).Layout(); !got.Equal(to) {
		t.Fatalf("%s to %s: the driver reports %s", have.Layout(), to, got)
	}
}
