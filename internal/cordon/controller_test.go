// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package cordon_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	ktesting "k8s.io/client-go/testing"

	"gpuslice/internal/cordon"
)

// soon is more than the controller needs to see a change and act on it.
const soon = 3 * time.Second

// pass lets so much time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (s *server) report(name, condition, annotation string) {
	s.t.Helper()
	s.ClearActions() // a day has many
	s.edit(name, func(n *corev1.Node) { report(n, condition, annotation) })
}

func (s *server) wantDone(want ...string) {
	s.t.Helper()
	if diff := cmp.Diff(want, s.done()); diff != "" {
		s.t.Errorf("changes of Nodes (-want +got):\n%s", diff)
	}
}

// A node beyond the threshold is cordoned after the wait and not before, and uncordoned after it has been below it for as long.
func TestCordonAndRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, nodeOf("a", "True", "0/8"), nodeOf("cpu", "", ""))
		r := s.run("one", settings(t, "50%", "25%"))
		defer r.kill()
		pass(time.Hour)
		s.report("a", "False", "3/8")
		pass(time.Hour)
		s.wantDone()
		s.report("a", "False", "4/8")
		pass(time.Minute - time.Second)
		s.wantDone()
		pass(soon)
		s.isOurs("a", true)
		if why := s.node("a").Annotations[cordon.MarkAnnotation]; why != "4/8 GPUs unhealthy, threshold 50%" {
			t.Errorf("the mark says %q", why)
		}
		pass(time.Hour)
		s.report("a", "False", "1/8")
		pass(30 * time.Second)
		s.report("a", "True", "0/8") // even better, which is no new beginning
		pass(29 * time.Second)
		s.wantDone("a cordon")
		pass(soon)
		s.isOurs("a", false)
		s.wantDone("a cordon", "a uncordon")
		if diff := cmp.Diff([]string{"a GPUNodeCordoned", "a GPUNodeUncordoned"}, s.said()); diff != "" {
			t.Error(diff)
		}
	})
}

// A day of sickness, recovery, silence and restarts: a cordon that somebody else made, before or after the GPUs went, is never
// touched, nor is one that was handed over.
func TestOthersCordonsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		theirs := func(n *corev1.Node) *corev1.Node {
			n.Spec.Unschedulable = true
			return n
		}
		s := serve(t, theirs(nodeOf("before", "True", "0/8")), nodeOf("after", "True", "0/8"), nodeOf("handed", "False", "8/8"))
		with := settings(t, "50%", "100%")
		r := s.run("0", with)
		pass(2 * time.Minute)
		s.isOurs("handed", true)
		s.edit("handed", func(n *corev1.Node) { delete(n.Annotations, cordon.MarkAnnotation) })
		s.report("after", "False", "8/8")
		pass(30 * time.Second)
		s.edit("after", func(n *corev1.Node) { n.Spec.Unschedulable = true })
		said := [][2]string{{"False", "8/8"}, {"True", "0/8"}, {"Unknown", ""}, {"False", "1/8"}, {"True", "4/8"}, {"False", "eight"}}
		for i := range 24 * 4 {
			for j, name := range []string{"before", "after", "handed"} {
				word := said[(i+j)%len(said)]
				s.report(name, word[0], word[1])
			}
			pass(15 * time.Minute)
			if i%5 == 4 {
				r.kill()
				r = s.run(fmt.Sprint(i), with)
			}
			for _, name := range []string{"before", "after", "handed"} {
				if n := s.node(name); !n.Spec.Unschedulable || n.Annotations[cordon.MarkAnnotation] != "" {
					t.Fatalf("%s after %d quarters of an hour: %v %v", name, i, n.Spec, n.Annotations)
				}
			}
		}
		r.kill()
		s.wantDone("handed cordon")
	})
}

// GPUs that come and go more quickly than the wait cordon nothing, and uncordon nothing.
func TestFlapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, nodeOf("a", "False", "8/8"), nodeOf("b", "True", "0/8"))
		r := s.run("one", settings(t, "50%", "100%"))
		defer r.kill()
		pass(2 * time.Minute)
		s.wantDone("a cordon")
		for i := range 240 {
			word := [][2]string{{"True", "0/8"}, {"False", "8/8"}, {"Unknown", "8/8"}, {"False", "8/8"}}[i%4]
			s.report("a", word[0], word[1])
			s.report("b", word[0], word[1])
			pass(50 * time.Second)
		}
		s.wantDone("a cordon")
	})
}

// Nothing is done, in either direction, while a node does not say how its GPUs are.
func TestSilence(t *testing.T) {
	for _, silence := range []struct {
		why   string
		quiet func(*corev1.Node)
	}{
		{"agent starts", func(n *corev1.Node) { report(n, "Unknown", "8/8") }},
		{"annotation is malformed", func(n *corev1.Node) { report(n, "False", "lots") }},
		{"annotation is gone", func(n *corev1.Node) { delete(n.Annotations, cordon.CountAnnotation) }},
		{"condition is gone", func(n *corev1.Node) { n.Status.Conditions = nil }},
		{"they contradict each other", func(n *corev1.Node) { report(n, "True", "8/8") }},
		{"they contradict each other the other way", func(n *corev1.Node) { report(n, "False", "0/8") }},
		{"node does not answer", func(n *corev1.Node) { setCondition(n, corev1.NodeReady, "Unknown") }},
	} {
		t.Run(silence.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, nodeOf("sick", "False", "8/8"), nodeOf("well", "False", "8/8"))
				r := s.run("one", settings(t, "50%", "100%"))
				pass(30 * time.Second)
				s.edit("sick", silence.quiet)
				pass(2 * time.Minute)
				s.wantDone("well cordon")
				s.report("well", "True", "0/8")
				pass(30 * time.Second)
				s.edit("well", silence.quiet)
				pass(3 * time.Hour)
				r.kill()
				r = s.run("two", settings(t, "50%", "100%"))
				defer r.kill()
				pass(3 * time.Hour)
				s.wantDone("well cordon")
				s.edit("sick", func(n *corev1.Node) {
					setCondition(n, corev1.NodeReady, "True")
					report(n, "False", "8/8")
				})
				pass(time.Minute - time.Second) // what was before the silence does not count
				s.wantDone("well cordon")
				pass(soon)
				s.wantDone("well cordon", "sick cordon")
			})
		})
	}
}

// Who uncordons by hand is not contradicted, over restarts too, until all GPUs have been well once; then it begins anew. A cordon
// made by hand in between is not taken for ours.
func TestUncordonedByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, nodeOf("a", "False", "8/8"))
		with := settings(t, "50%", "100%")
		r := s.run("one", with)
		pass(2 * time.Minute)
		s.isOurs("a", true)
		s.edit("a", func(n *corev1.Node) { n.Spec.Unschedulable = false })
		pass(soon)
		if _, noted := s.node("a").Annotations[cordon.OverruledAnnotation]; !noted {
			t.Error("not noted")
		}
		for i := range 10 {
			pass(time.Hour)
			r.kill()
			r = s.run(fmt.Sprint("again", i), with)
			s.report("a", "False", []string{"3/8", "8/8"}[i%2]) // better is not well
		}
		s.edit("a", func(n *corev1.Node) { n.Spec.Unschedulable = true })
		pass(time.Hour)
		s.report("a", "True", "0/8")
		pass(time.Hour)
		if n := s.node("a"); !n.Spec.Unschedulable || n.Annotations[cordon.OverruledAnnotation] != "" {
			t.Errorf("%v %v", n.Spec, n.Annotations)
		}
		s.edit("a", func(n *corev1.Node) { n.Spec.Unschedulable = false })
		s.report("a", "False", "8/8")
		pass(2 * time.Minute)
		s.isOurs("a", true)
		r.kill()
		s.wantDone("a cordon", "a annotate", "a annotate", "a cordon")
	})
}

// One bad roll-out never takes the whole fleet: the bound holds over restarts, is said, and room is used when there is some.
func TestOneBadRollOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := []*corev1.Node{}
		for i := range 8 {
			all = append(all, nodeOf(fmt.Sprint("n", i), "True", "0/8"))
		}
		s := serve(t, all...)
		with := settings(t, "50%", "25%")
		r := s.run("one", with)
		pass(time.Minute)
		for i := range 8 {
			s.report(fmt.Sprint("n", i), "False", "8/8")
			pass(soon)
		}
		for i := range 6 {
			pass(30 * time.Minute)
			s.wantDone("n0 cordon", "n1 cordon")
			r.kill()
			r = s.run(fmt.Sprint(i), with)
		}
		pass(time.Hour)
		status := r.Status()
		if diff := cmp.Diff(cordon.Status{
			Leader: "5", Leading: true, GPUNodes: 8, Cordoned: []string{"n0", "n1"}, Refused: []string{"n2", "n3", "n4", "n5", "n6", "n7"},
		}, status); diff != "" {
			t.Error(diff)
		}
		said := s.said()
		if n := len(slices.DeleteFunc(slices.Clone(said), func(e string) bool { return e != "n7 GPUNodeNotCordoned" })); n < 2 || n > 8 {
			t.Errorf("said %d times about n7 in four hours and seven terms: %v", n, said)
		}
		s.report("n0", "True", "0/8")
		pass(2*time.Minute + soon)
		r.kill()
		if done := s.done(); len(done) != 4 || done[2] != "n0 uncordon" || !strings.HasSuffix(done[3], " cordon") || done[3] == "n0 cordon" {
			t.Errorf("%v", done)
		}
	})
}

// Somebody cordons between the look and the patch: the patch is for another version of the Node and changes nothing.
func TestSomebodyIsQuicker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, nodeOf("a", "False", "8/8"), nodeOf("b", "False", "8/8"))
		s.before = func(name string, _ int) error {
			if name == "a" {
				s.edit("a", func(n *corev1.Node) { n.Spec.Unschedulable = true })
			}
			return nil
		}
		r := s.run("one", settings(t, "50%", "100%"))
		defer r.kill()
		pass(time.Hour)
		s.report("a", "True", "0/8")
		pass(time.Hour)
		s.wantDone("b cordon")
		if n := s.node("a"); !n.Spec.Unschedulable || n.Annotations[cordon.MarkAnnotation] != "" {
			t.Errorf("%v %v", n.Spec, n.Annotations)
		}
	})
}

// A node that cannot be patched is tried ever more rarely, keeps no other from its turn, and is done when it can be.
func TestPatchesFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, nodeOf("a", "False", "8/8"), nodeOf("b", "True", "0/8"))
		fails := true
		s.before = func(name string, _ int) error {
			if name == "a" && fails {
				return apierrors.NewForbidden(nodes.GroupResource(), name, errors.New("a webhook is in the way"))
			}
			return nil
		}
		r := s.run("one", settings(t, "50%", "1"))
		defer r.kill()
		pass(time.Minute + soon)
		s.report("b", "False", "8/8")
		pass(2 * time.Minute)
		s.wantDone("b cordon")
		s.report("b", "True", "0/8")
		pass(5 * time.Hour)
		s.wantDone("b cordon", "b uncordon")
		if n := len(s.tries); n < 5 || n > 80 {
			t.Errorf("%d attempts in five hours", n)
		}
		s.mu.Lock()
		fails = false
		s.mu.Unlock()
		pass(6 * time.Minute)
		s.isOurs("a", true)
	})
}

// An answer that was lost is no reason to cordon one more than allowed.
func TestLostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, nodeOf("a", "False", "8/8"), nodeOf("b", "False", "8/8"))
		s.before = func(string, int) error { return apierrors.NewTimeoutError("no answer", 1) }
		r := s.run("one", settings(t, "50%", "1"))
		defer r.kill()
		pass(time.Hour)
		if len(s.tries) == 0 {
			t.Fatal("nothing was tried")
		}
		s.wantDone()
		s.mu.Lock()
		s.before = nil
		s.mu.Unlock()
		pass(time.Hour)
		if done := s.done(); len(done) != 1 {
			t.Errorf("%v", done)
		}
	})
}

// The bound holds although it is long before the watch brings what was done.
func TestLateWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, nodeOf("a", "True", "0/8"), nodeOf("b", "True", "0/8"), nodeOf("c", "True", "0/8"))
		s.PrependWatchReactor("nodes", func(a ktesting.Action) (bool, watch.Interface, error) {
			w, err := s.Tracker().Watch(nodes, "", a.(ktesting.WatchActionImpl).ListOptions)
			return true, late(w, 30*time.Second), err
		})
		r := s.run("one", settings(t, "50%", "1"))
		pass(soon)
		for _, name := range []string{"a", "b", "c"} {
			s.report(name, "False", "8/8")
			pass(10 * time.Second)
		}
		pass(time.Hour)
		s.wantDone("a cordon")
		if n := len(s.tries); n != 1 {
			t.Errorf("%d patches for one cordon", n)
		}
		r.kill()
		pass(time.Minute)
	})
}

// One acts at a time; when it is killed another goes on where it was, and undoes what it did. An API server that is away ends a
// term and no process.
func TestLeaderChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, nodeOf("a", "False", "8/8"), nodeOf("b", "True", "0/8"))
		with := settings(t, "50%", "100%")
		first := s.run("first", with)
		pass(soon)
		second := s.run("second", with)
		pass(soon)
		for _, r := range []*replica{first, second} {
			if err := r.Ready(); err != nil || r.Status().Leader != "first" {
				t.Errorf("%+v: %v", r.Status(), err)
			}
		}
		pass(2 * time.Minute)
		s.wantDone("a cordon")
		first.kill()
		s.report("a", "True", "0/8")
		s.report("b", "False", "8/8")
		pass(30 * time.Second)
		if status := second.Status(); status.Leader != "second" || !status.Leading {
			t.Errorf("%+v", status)
		}
		pass(2 * time.Minute)
		s.isOurs("a", false)
		s.isOurs("b", true)

		away := true
		s.PrependReactor("*", "leases", func(ktesting.Action) (bool, runtime.Object, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return away, nil, apierrors.NewServiceUnavailable("away")
		})
		s.report("b", "True", "0/8")
		pass(10 * time.Minute)
		if second.Status().Leading {
			t.Error("it leads without a Lease")
		}
		done := len(s.done())
		s.report("a", "False", "8/8")
		pass(10 * time.Minute)
		if len(s.done()) != done {
			t.Errorf("it acts without a Lease: %v", s.done())
		}
		s.mu.Lock()
		away = false
		s.mu.Unlock()
		pass(2 * time.Minute)
		s.isOurs("a", true)
		s.isOurs("b", false)
		second.kill()
	})
}

// A node that is removed and made anew is another one: neither its clock nor its cordon is inherited.
func TestNodeMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, nodeOf("a", "False", "8/8"))
		r := s.run("one", settings(t, "50%", "100%"))
		defer r.kill()
		pass(30 * time.Second)
		s.remove("a")
		anew := nodeOf("a", "False", "8/8")
		anew.UID = "another"
		s.add(anew)
		pass(50 * time.Second)
		s.wantDone()
		pass(20 * time.Second)
		s.wantDone("a cordon")
		s.remove("a")
		anew.UID = "a third"
		anew.Spec = corev1.NodeSpec{}
		anew.Annotations = map[string]string{}
		anew.CreationTimestamp = metav1.Now()
		s.add(anew)
		pass(time.Hour)
		s.isOurs("a", false)
		s.wantDone("a cordon")
	})
}

// A process that is not let near the Nodes is not ready, and says why. This is in real time: the library's pause after an error is.
func TestNotReady(t *testing.T) {
	s := serve(t)
	c := cordon.New(s.Clientset, cordon.Options{Settings: settings(t, "50%", "25%"), Namespace: "gpuslice", Identity: "never run"})
	if err := c.Ready(); err == nil {
		t.Error("ready before it has read the Lease")
	}
	refused := apierrors.NewForbidden(nodes.GroupResource(), "", errors.New("no right"))
	s.PrependReactor("list", "nodes", func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, refused })
	s.PrependWatchReactor("nodes", ktesting.DefaultWatchReactor(nil, refused))
	r := s.run("one", settings(t, "50%", "25%"))
	defer r.kill()
	var err error
	for range 100 {
		<-time.After(100 * time.Millisecond)
		if err = r.Ready(); err != nil && err.Error() == "the Nodes are not read yet" {
			return
		}
	}
	t.Error(err)
}
