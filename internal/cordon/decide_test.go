// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package cordon_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"gpuslice/internal/cordon"
)

var start = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)

// settings as they are without flags.
func settings(t testing.TB, threshold, most string) cordon.Settings {
	t.Helper()
	a, err := cordon.ParseAmount(threshold)
	b, err2 := cordon.ParseAmount(most)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	return cordon.Settings{Threshold: a, Wait: time.Minute, MaxCordoned: b}
}

// The axes of everything that one node can be.
var (
	conditions  = []string{"", "Unknown", "True", "False"}
	annotations = []string{"", "three of eight", "0/8", "3/8", "4/8", "8/8"}
	switches    = []bool{false, true}
)

// speaks is what each pair that is of one mind means with a threshold of half; every other pair says nothing.
var speaks = map[string]string{"True 0/8": "well", "False 3/8": "below", "False 4/8": "beyond", "False 8/8": "beyond"}

// rule is one sentence about nodes; "" fits all of an axis.
type rule struct {
	sentence                                     string
	gpus                                         string // well, below, beyond, silent, or several with |
	unschedulable, marked, overruled, long, room string // yes, no
	want                                         cordon.Action
}

// law is what shall be done, sentence by sentence. Exactly one of them is about each case.
var law = []rule{
	{"of a node of which nothing is known nothing is changed", "silent", "", "no", "", "", "", cordon.Nothing},
	{"nor is a cordon of ours taken away there", "silent", "yes", "yes", "", "", "", cordon.Nothing},

	{"a cordon without our mark is somebody else's, however sick the node", "below|beyond", "yes", "no", "", "", "", cordon.Nothing},
	{"and however well", "well", "yes", "no", "no", "", "", cordon.Nothing},
	{"what was noted about an earlier cordon goes when all is well, and the cordon of another stays", "well", "yes", "no", "yes", "", "", cordon.Forget},

	{"our cordon stays while the node is beyond the threshold", "beyond", "yes", "yes", "", "", "", cordon.Nothing},
	{"it stays until the node has been below it for the wait", "well|below", "yes", "yes", "", "no", "", cordon.Wait},
	{"then it goes, whether there is room for more or not", "well|below", "yes", "yes", "", "yes", "", cordon.Uncordon},

	{"a mark without a cordon: somebody has taken it away, which is noted", "silent|below|beyond", "no", "yes", "", "", "", cordon.Overrule},
	{"and forgotten when all is well", "well", "no", "yes", "", "", "", cordon.Forget},
	{"who has taken a cordon away is not contradicted", "below|beyond", "no", "no", "yes", "", "", cordon.Nothing},
	{"until all has been well once", "well", "no", "no", "yes", "", "", cordon.Forget},

	{"a node that is well, or well enough, is left alone", "well|below", "no", "no", "no", "", "", cordon.Nothing},
	{"one beyond the threshold is given its time", "beyond", "no", "no", "no", "no", "", cordon.Wait},
	{"then it is cordoned", "beyond", "no", "no", "no", "yes", "yes", cordon.Cordon},
	{"unless so many are already", "beyond", "no", "no", "no", "yes", "no", cordon.Refuse},
}

func (r rule) fits(gpus string, unschedulable, marked, overruled, long, room bool) bool {
	is := func(want string, got bool) bool { return want == "" || (want == "yes") == got }
	return slices.Contains(split(r.gpus), gpus) && is(r.unschedulable, unschedulable) && is(r.marked, marked) &&
		is(r.overruled, overruled) && is(r.long, long) && is(r.room, room)
}

// Every case there is, judged by the sentences above.
func TestEveryCase(t *testing.T) {
	cases := 0
	for _, condition := range conditions {
		for _, annotation := range annotations {
			for _, answers := range switches {
				gpus := speaks[condition+" "+annotation]
				if gpus == "" || !answers {
					gpus = "silent"
				}
				for i := range 1 << 5 {
					unschedulable, marked, overruled, long, room := i&1 != 0, i&2 != 0, i&4 != 0, i&8 != 0, i&16 != 0
					cases++
					name := fmt.Sprintf("condition %q annotation %q answers %v unschedulable %v marked %v overruled %v long %v room %v",
						condition, annotation, answers, unschedulable, marked, overruled, long, room)
					about := []rule{}
					for _, r := range law {
						if r.fits(gpus, unschedulable, marked, overruled, long, room) {
							about = append(about, r)
						}
					}
					if len(about) != 1 {
						t.Fatalf("%s: %d sentences are about it, %v", name, len(about), about)
					}
					n := nodeOf("n", condition, annotation)
					n.Spec.Unschedulable = unschedulable
					setNote(n, cordon.MarkAnnotation, marked)
					setNote(n, cordon.OverruledAnnotation, overruled)
					if !answers {
						setCondition(n, corev1.NodeReady, "Unknown")
					}
					got := decideAmong(t, n, long, room)
					if got.Do != about[0].want {
						t.Errorf("%s: %s, but %s: %s", name, got.Do, about[0].sentence, about[0].want)
					}
				}
			}
		}
	}
	t.Logf("%d cases", cases)
}

// decideAmong decides about a node beside one that is cordoned, of which one or two may be.
func decideAmong(t *testing.T, n *corev1.Node, long, room bool) cordon.Decision {
	t.Helper()
	other := nodeOf("other", "False", "8/8")
	other.Spec.Unschedulable = true
	setNote(other, cordon.MarkAnnotation, true)
	most, since := "1", start.Add(-59*time.Second)
	if room {
		most = "3" // itself may be one of them
	}
	if long {
		since = start.Add(-time.Minute)
	}
	nodes := []cordon.Node{{Facts: cordon.FactsOf(other), Since: since}, {Facts: cordon.FactsOf(n), Since: since}}
	for _, d := range cordon.Decide(nodes, settings(t, "50%", most), start) {
		if d.Node == n.Name {
			if d.Do == cordon.Wait && !d.At.Equal(start.Add(time.Second)) {
				t.Errorf("waits until %v", d.At)
			}
			return d
		}
	}
	t.Fatal("no decision")
	return cordon.Decision{}
}

// What an agent never writes says nothing, and what it writes is read exactly.
func TestCounts(t *testing.T) {
	for _, tc := range []struct {
		text           string
		some, of       int
		known, counted bool
	}{
		{"1/1", 1, 1, true, true},
		{"3/8", 3, 8, true, true},
		{"16/16", 16, 16, true, true},
		{"0/8", 0, 8, false, true}, // the condition says otherwise
		{"0/0", 0, 0, false, false},
		{"9/8", 0, 0, false, false},
		{"-1/8", 0, 0, false, false},
		{"3/-8", 0, 0, false, false},
		{"3/8/1", 0, 0, false, false},
		{"3", 0, 0, false, false},
		{"/", 0, 0, false, false},
		{"3/ 8", 0, 0, false, false},
		{"+3/8", 0, 0, false, false},
		{"03/8", 0, 0, false, false},
		{"3/8\n", 0, 0, false, false},
		{"1/9999999999999999999", 0, 0, false, false},
	} {
		f := cordon.FactsOf(nodeOf("n", "False", tc.text))
		if f.Unhealthy != tc.some || f.GPUs != tc.of || f.Known != tc.known {
			t.Errorf("%q: %+v", tc.text, f)
		}
	}
}

func TestAmounts(t *testing.T) {
	for _, bad := range []string{"", "0", "0%", "-1", "101%", "half", "2 GPUs", "50 %", "%", "1.5", "+2", "02", "50%%", "1000001", "99999999999999999999"} {
		if a, err := cordon.ParseAmount(bad); err == nil {
			t.Errorf("%q is read as %s", bad, a)
		}
	}
	for _, tc := range []struct {
		threshold string
		all       int
		from      int // so many are enough; 0: none are
		why       string
	}{
		{"2", 8, 2, "a number is a number"},
		{"2", 1, 0, "a node of one GPU never has two"},
		{"50%", 8, 4, "half"},
		{"50%", 7, 4, "three of seven are less than half"},
		{"50%", 1, 1, "one of one"},
		{"1%", 8, 1, "any"},
		{"100%", 8, 8, "all"},
		{"34%", 3, 2, "a third is less"},
	} {
		got := 0
		for some := tc.all; some >= 1; some-- {
			f := cordon.FactsOf(nodeOf("n", "False", fmt.Sprintf("%d/%d", some, tc.all)))
			nodes := []cordon.Node{{Facts: f, Since: start.Add(-time.Hour)}}
			if cordon.Decide(nodes, settings(t, tc.threshold, "1"), start)[0].Do == cordon.Cordon {
				got = some
			}
		}
		if got != tc.from {
			t.Errorf("--threshold=%s of %d: cordoned from %d, want %d: %s", tc.threshold, tc.all, got, tc.from, tc.why)
		}
	}
}

// Whatever the size of the cluster, no more are cordoned than the bound says, counting those that are already; those go first that
// have waited longest.
func TestMostOfAFleet(t *testing.T) {
	for _, tc := range []struct {
		most              string
		fleet, ours, want int
	}{
		{"25%", 1, 0, 1},
		{"25%", 3, 0, 1},
		{"25%", 8, 0, 2},
		{"25%", 8, 1, 1},
		{"25%", 8, 2, 0},
		{"25%", 8, 5, 0},
		{"25%", 400, 0, 100},
		{"3", 2, 0, 2},
		{"3", 400, 0, 3},
		{"100%", 5, 0, 5},
	} {
		nodes := []cordon.Node{}
		for i := range tc.fleet {
			n := nodeOf(fmt.Sprintf("n%03d", i), "False", "8/8")
			n.Spec.Unschedulable = i < tc.ours
			setNote(n, cordon.MarkAnnotation, i < tc.ours)
			nodes = append(nodes, cordon.Node{Facts: cordon.FactsOf(n), Since: start.Add(-time.Hour - time.Duration(i)*time.Second)})
		}
		nodes = append(nodes, cordon.Node{Facts: cordon.FactsOf(nodeOf("cpu", "", ""))}, cordon.Node{Facts: cordon.FactsOf(nodeOf("empty", "True", "0/0"))})
		got := []string{}
		for _, d := range cordon.Decide(nodes, settings(t, "50%", tc.most), start) {
			if d.Do == cordon.Cordon {
				got = append(got, d.Node)
			}
		}
		want := []string{}
		for i := range tc.want {
			want = append(want, fmt.Sprintf("n%03d", tc.fleet-1-i))
		}
		if !slices.Equal(got, want) {
			t.Errorf("--max-cordoned=%s of %d, %d already: %v, want %v", tc.most, tc.fleet, tc.ours, got, want)
		}
	}
}

// What failed is not tried at once; a cordon of which nobody knows whether it was made takes its place meanwhile, one that was
// refused does not.
func TestWhatFailedWaits(t *testing.T) {
	for _, uncertain := range switches {
		a := cordon.Node{
			Facts: cordon.FactsOf(nodeOf("a", "False", "8/8")), Since: start.Add(-2 * time.Hour),
			Retry: start.Add(time.Second), Uncertain: uncertain,
		}
		b := cordon.Node{Facts: cordon.FactsOf(nodeOf("b", "False", "8/8")), Since: start.Add(-time.Hour)}
		got := cordon.Decide([]cordon.Node{b, a}, settings(t, "50%", "1"), start)
		want := cordon.Cordon
		if uncertain {
			want = cordon.Refuse
		}
		if got[0].Do != cordon.Wait || !got[0].At.Equal(a.Retry) || got[1].Do != want {
			t.Errorf("uncertain %v: %v", uncertain, got)
		}
	}
}

func FuzzFacts(f *testing.F) {
	for _, a := range annotations {
		f.Add(a)
	}
	f.Fuzz(func(t *testing.T, annotation string) {
		got := cordon.FactsOf(nodeOf("n", "False", annotation))
		if got.Unhealthy < 0 || got.Unhealthy > got.GPUs || got.GPUs > 0 && annotation != fmt.Sprintf("%d/%d", got.Unhealthy, got.GPUs) {
			t.Errorf("%q: %+v", annotation, got)
		}
	})
}

func FuzzAmount(f *testing.F) {
	for _, a := range []string{"2", "50%", "0", "101%"} {
		f.Add(a)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if a, err := cordon.ParseAmount(text); err == nil && a.String() != text {
			t.Errorf("%q is read as %s", text, a)
		}
	})
}
