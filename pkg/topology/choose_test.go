// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package topology

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// node is GPUs "0" to "f..." with links by a function of their numbers.
func node(n int, link func(a, b int) Link) *Chooser {
	names, number := make([]string, n), map[string]int{}
	for i := range names {
		names[i] = fmt.Sprintf("%02d", i)
		number[names[i]] = i
	}
	return NewChooser(names, func(a, b string) Link { return link(min(number[a], number[b]), max(number[a], number[b])) })
}

// half is the PCIe class on a node of two sockets.
func half(n int) func(a, b int) Link {
	return func(a, b int) Link {
		if (a < n/2) == (b < n/2) {
			return Link{PCIe: SameCPU}
		}
		return Link{PCIe: CrossCPU}
	}
}

// bridged has pairs of neighbours with four NVLinks.
func bridged(a, b int) Link {
	if a/2 == b/2 {
		return Link{PCIe: SameCPU, NVLinks: 4}
	}
	return Link{PCIe: SameCPU}
}

func names(text string) []string {
	list := []string{}
	for f := range strings.FieldsSeq(text) {
		list = append(list, fmt.Sprintf("%02s", f))
	}
	return list
}

func TestChoose(t *testing.T) {
	fabric := func(a, b int) Link { return Link{PCIe: half(8)(a, b).PCIe, NVLinks: 18} }
	for _, tc := range []struct {
		name                      string
		node                      *Chooser
		available, required, want string
		size                      int
	}{
		{"a pair is taken whole", node(8, bridged), "1 2 3 5", "", "2 3", 2},
		{"a single GPU is one whose partner is gone", node(8, bridged), "0 1 2 4 5", "", "2", 1},
		{"a single GPU is the first where nothing is gone", node(8, bridged), "0 1 2 3 4 5 6 7", "", "0", 1},
		{"three leave as many pairs as can be", node(8, bridged), "0 1 2 3 4 5 7", "", "0 1 7", 3},
		{"what is required brings its partner", node(8, bridged), "0 1 2 3 4 5 6 7", "5", "5 4", 2},
		{"the document's example: one", node(8, bridged), "0 1 2 3 4 5 7", "", "7", 1},
		{"the document's example: two", node(8, bridged), "0 1 2 3 4 5 7", "", "0 1", 2},
		{"the document's example: one of two is required", node(8, bridged), "0 1 2 3 4 5 7", "5", "5 4", 2},
		{"of equal GPUs the socket with fewer gives", node(8, half(8)), "0 1 2 3 6 7", "", "6", 1},
		{"one socket", node(8, half(8)), "2 3 4 5 6 7", "", "4 5 6 7", 4},
		{"on a fabric the socket still counts", node(8, fabric), "0 3 4 5 6", "", "4 5 6", 3},
		{"a single GPU of a fabric", node(8, fabric), "0 1 2 3 4 5", "", "4", 1},
		{"nothing is known of any link", node(4, func(_, _ int) Link { return Link{} }), "1 3 2", "", "1 2", 2},
		{"fewer than asked for", node(4, bridged), "1 3", "3", "3 1", 3},
		{"more required than asked for", node(4, bridged), "1 2 3", "1 2 3", "1 2 3", 2},
		{"required and not available", node(4, bridged), "1 2", "3", "3 2", 2},
		{"said twice", node(4, bridged), "1 1 2 2", "1 1", "1 2", 2},
		{"unknown GPUs come last", node(4, bridged), "90 2 91 3", "", "2 3 90", 3},
		{"unknown GPU required", node(4, bridged), "0 2 3", "90", "90 2 3", 3},
		{"none", node(4, bridged), "0 1", "", "", 0},
		{"fewer than none", node(4, bridged), "0 1", "", "", -3},
		{"nobody", node(0, bridged), "", "", "", 2},
		{"one GPU", node(1, bridged), "0", "", "0", 1},
		{"more than an exact choice has: a pair", node(20, bridged), "1 2 5 8 9 19", "", "8 9", 2},
		{"more than an exact choice has: a single one", node(20, bridged), "8 9 17 18 19", "", "17", 1},
		{"more than an exact choice has: required", node(20, bridged), "1 2 8 9 19", "8", "8 9 1", 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := tc.node.Choose(names(tc.available), names(tc.required), tc.size)
			if diff := cmp.Diff(names(tc.want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// value is what a set is worth: as part of the best way to divide all, by itself, and by what it leaves.
type value struct{ division, own, rest int }

func (v value) compare(w value) int {
	return slices.Compare([]int{v.division, v.own, v.rest}, []int{w.division, w.own, w.rest})
}

// judge tries everything, one GPU after the other, with nothing of the code under test but the score of a link.
type judge [][]int

func (j judge) sum(set []int) (total int) {
	for i, a := range set {
		for _, b := range set[:i] {
			total += j[a][b]
		}
	}
	return total
}

// divide is the most that a list has left when it falls into full parts and at most one smaller one.
func (j judge) divide(list []int, size int) int {
	smaller := len(list) % size
	var parts [][]int
	best := -1
	var put func(i int)
	put = func(i int) {
		if i == len(list) {
			total := 0
			for _, p := range parts {
				total += j.sum(p)
			}
			best = max(best, total)
			return
		}
		for k := range parts {
			if limit := cap(parts[k]); len(parts[k]) < limit {
				parts[k] = append(parts[k], list[i])
				put(i + 1)
				parts[k] = parts[k][:len(parts[k])-1]
			}
		}
		if full := len(parts) - count(parts, smaller, size); full < len(list)/size {
			parts = append(parts, append(make([]int, 0, size), list[i]))
			put(i + 1)
			parts = parts[:len(parts)-1]
		}
		if smaller > 0 && count(parts, smaller, size) == 0 {
			parts = append(parts, append(make([]int, 0, smaller), list[i]))
			put(i + 1)
			parts = parts[:len(parts)-1]
		}
	}
	put(0)
	return best
}

// count is how many parts are of the smaller kind.
func count(parts [][]int, smaller, size int) (n int) {
	for _, p := range parts {
		if smaller > 0 && smaller < size && cap(p) == smaller {
			n++
		}
	}
	return n
}

func (j judge) value(all, set []int) value {
	rest := slices.DeleteFunc(slices.Clone(all), func(x int) bool { return slices.Contains(set, x) })
	return value{division: j.sum(set) + j.divide(rest, len(set)), own: j.sum(set), rest: j.sum(rest)}
}

// best is the greatest value of all sets that hold what is required.
func (j judge) best(all, required []int, size int) (best value) {
	for bits := range 1 << len(all) {
		var set []int
		for i, x := range all {
			if bits>>i&1 == 1 {
				set = append(set, x)
			}
		}
		holds := !slices.ContainsFunc(required, func(x int) bool { return !slices.Contains(set, x) })
		if len(set) != size || !holds {
			continue
		}
		if v := j.value(all, set); v.compare(best) > 0 {
			best = v
		}
	}
	return best
}

// random is a node with few or many kinds of links.
func random(r *rand.Rand) (*Chooser, judge) {
	n, kinds := 2+r.IntN(6), 1+r.IntN(24)
	links, j := map[[2]int]Link{}, make(judge, n)
	for a := range j {
		j[a] = make([]int, n)
	}
	for a := range n {
		for b := a + 1; b < n; b++ {
			kind := r.IntN(kinds)
			link := Link{PCIe: Class(kind % 7), NVLinks: kind / 7 * r.IntN(7)}
			links[[2]int{a, b}], j[a][b], j[b][a] = link, link.Score(), link.Score()
		}
	}
	return node(n, func(a, b int) Link { return links[[2]int{a, b}] }), j
}

// some are part of a list, in order.
func some(r *rand.Rand, of []int, n int) []int {
	part := slices.Clone(of)
	r.Shuffle(len(part), func(i, k int) { part[i], part[k] = part[k], part[i] })
	part = part[:n]
	slices.Sort(part)
	return part
}

// On 200 random nodes no set is better than the one that is chosen.
func TestNoSetIsBetter(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 2))
	asked := 0
	for range 200 {
		c, j := random(r)
		for range 10 {
			everybody := make([]int, len(j))
			for i := range everybody {
				everybody[i] = i
			}
			all := some(r, everybody, 1+r.IntN(len(j)))
			size := 1 + r.IntN(len(all))
			required := some(r, all, r.IntN(size+1))
			chosen := numbers(c.Choose(named(c, all), named(c, required), size))
			asked++
			if len(chosen) != size || missing(all, chosen) || missing(chosen, required) {
				t.Fatalf("%d of %v with %v: %v", size, all, required, chosen)
			}
			if got, want := j.value(all, chosen), j.best(all, required, size); got.compare(want) != 0 {
				t.Fatalf("%d of %v with %v: %v is worth %+v, the best %+v; links %v", size, all, required, chosen, got, want, j)
			}
		}
	}
	t.Logf("%d requests", asked)
}

func named(c *Chooser, list []int) []string {
	out := []string{}
	for _, i := range list {
		out = append(out, c.names[i])
	}
	return out
}

func numbers(list []string) []int {
	out := make([]int, len(list))
	for i, name := range list {
		fmt.Sscanf(name, "%d", &out[i])
	}
	return out
}

// missing says that one of part is not in all.
func missing(all, part []int) bool {
	return slices.ContainsFunc(part, func(x int) bool { return !slices.Contains(all, x) })
}

func TestTheOrderOfTheQuestionDoesNotMatter(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{8, 24} {
		c := node(n, bridged)
		for range 200 {
			all := some(r, numbers(c.names), 1+r.IntN(n))
			size := 1 + r.IntN(len(all))
			one := c.Choose(named(c, all), nil, size)
			r.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
			if diff := cmp.Diff(one, c.Choose(named(c, all), nil, size)); diff != "" {
				t.Fatalf("%d of %v (-once +again):\n%s", size, all, diff)
			}
		}
	}
}

// Whatever is asked of nodes of any size: an answer that is no nil, with all of required, and as many as there are.
func FuzzChoose(f *testing.F) {
	f.Add(uint8(8), uint32(0xff), uint32(1), 3)
	f.Add(uint8(30), uint32(0xffffff), uint32(0xf0000000), 5)
	f.Add(uint8(3), uint32(0xff), uint32(0xff), -1)
	f.Fuzz(func(t *testing.T, gpus uint8, available, required uint32, size int) {
		c := node(int(gpus%33), bridged)
		ids := func(bits uint32) (list []string) {
			for i := range 32 {
				if bits>>i&1 == 1 {
					list = append(list, fmt.Sprintf("%02d", i))
				}
			}
			return list
		}
		got := c.Choose(ids(available), ids(required), size)
		want := max(len(ids(required)), min(size, len(ids(available|required))))
		if got == nil || len(got) != max(want, 0) || len(unique(got)) != len(got) || missing(numbers(got), numbers(ids(required))) {
			t.Errorf("%d of %v with %v: %v", size, ids(available), ids(required), got)
		}
		if missing(numbers(ids(available|required)), numbers(got)) {
			t.Errorf("%d of %v with %v: %v", size, ids(available), ids(required), got)
		}
	})
}

// A greedy choice is near the exact one where both can be had.
func TestGreedyIsGood(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	var got, want int32
	for range 200 {
		c, j := random(r)
		all := numbers(c.names)
		size := 1 + r.IntN(len(j))
		got += c.exact.within[setOf(greedy(c.scores, all, nil, size))]
		best := int32(0)
		for s := range setOf(all).subsets(size) {
			best = max(best, c.exact.within[s])
		}
		want += best
	}
	t.Logf("greedy sets keep %.1f %% of the links of the best", 100*float64(got)/float64(want))
	if got*100 < want*97 {
		t.Errorf("greedy sets are worth %d, the best %d", got, want)
	}
}

func TestScores(t *testing.T) {
	for _, tc := range []struct {
		link Link
		want int
	}{
		{Link{}, 10},
		{Link{PCIe: CrossCPU}, 10},
		{Link{PCIe: SameCPU}, 20},
		{Link{PCIe: HostBridge}, 30},
		{Link{PCIe: MultiSwitch}, 40},
		{Link{PCIe: SingleSwitch}, 50},
		{Link{PCIe: SameBoard}, 60},
		{Link{PCIe: SameCPU, NVLinks: 1}, 120},
		{Link{PCIe: CrossCPU, NVLinks: 18}, 1810},
		{Link{PCIe: 99, NVLinks: 99}, 1860},
		{Link{PCIe: -1, NVLinks: -1}, 10},
	} {
		if got := tc.link.Score(); got != tc.want {
			t.Errorf("%+v is worth %d, want %d", tc.link, got, tc.want)
		}
	}
	if Class(-1).String() != "unknown" || SameBoard.String() != "same-board" {
		t.Error("classes have other names")
	}
}

func TestSubsets(t *testing.T) {
	for n := range 9 {
		for size := range n + 2 {
			all := set(1<<n-1) << 7 &^ (1 << 9) // with a hole
			want := []set{}
			for s := range set(1 << 16) {
				if s&^all == 0 && s.len() == size {
					want = append(want, s)
				}
			}
			if diff := cmp.Diff(want, append([]set{}, slices.Collect(all.subsets(size))...)); diff != "" {
				t.Errorf("parts of %d in %b (-want +got):\n%s", size, all, diff)
			}
		}
	}
}

// limitExact is the budget of one choice among 16 GPUs.
const limitExact = time.Millisecond

// BenchmarkChoose is one choice among 16 GPUs, of every size and on nodes of several kinds; the worst must be below 1 ms.
func BenchmarkChoose(b *testing.B) {
	r := rand.New(rand.NewPCG(3, 3))
	chance := map[[2]int]Link{}
	for x := range 16 {
		for y := x + 1; y < 16; y++ {
			chance[[2]int{x, y}] = Link{PCIe: Class(1 + r.IntN(6)), NVLinks: r.IntN(19)}
		}
	}
	for name, link := range map[string]func(a, b int) Link{
		"fabric": func(_, _ int) Link { return Link{PCIe: SameCPU, NVLinks: 18} },
		"random": func(x, y int) Link { return chance[[2]int{x, y}] },
	} {
		c := node(16, link)
		for size := 1; size <= 16; size++ {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				for b.Loop() {
					c.Choose(c.names, nil, size)
				}
				if took := b.Elapsed() / time.Duration(b.N); took > limitExact {
					b.Errorf("takes %v, the limit is %v", took, limitExact)
				}
			})
		}
	}
}

// BenchmarkNewChooser is what is computed when GPUs come or go.
func BenchmarkNewChooser(b *testing.B) {
	for _, n := range []int{8, 16} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				node(n, bridged)
			}
		})
	}
}
