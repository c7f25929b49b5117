// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package cordon

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Settings is what an admin chooses.
type Settings struct {
	Threshold   Amount        // so many of a node's GPUs, at least, are not well
	Wait        time.Duration // how long that holds before the node is cordoned, and how long it is over before the cordon goes
	MaxCordoned Amount        // so many of the GPU nodes, at most, are cordoned from here
}

// Action is what is to be done about a node.
type Action string

// What may be to do.
const (
	Nothing  Action = "nothing"
	Wait     Action = "wait"     // until At
	Cordon   Action = "cordon"   // and mark it
	Refuse   Action = "refuse"   // to cordon: there are too many already
	Uncordon Action = "uncordon" // and take the mark away
	Overrule Action = "overrule" // note that the cordon was taken away by hand
	Forget   Action = "forget"   // that there was a cordon
)

// Node is a node as it is decided about.
type Node struct {
	Facts
	Since     time.Time // since when it has been seen beyond the threshold, or seen below it, without a break
	Retry     time.Time // nothing is done to it before, because doing so failed
	Uncertain bool      // nobody knows whether that which failed was done
}

// Decision is what is to be done about a node, and why.
type Decision struct {
	Node string
	Do   Action
	Why  string
	At   time.Time // when to look again, for Wait
}

// level is how the GPUs of a node are.
type level int

const (
	unknown level = iota
	well          // all of them
	below         // the threshold
	beyond        // the threshold
)

func (s Settings) level(f Facts) level {
	switch {
	case !f.Known:
		return unknown
	case f.Unhealthy == 0:
		return well
	case s.Threshold.reachedBy(f.Unhealthy, f.GPUs):
		return beyond
	default:
		return below
	}
}

// Decide says what is to be done about each node, those first that have waited longest. It is pure.
func Decide(nodes []Node, s Settings, now time.Time) []Decision {
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b Node) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Name, b.Name))
	})
	r := room{limit: s.MaxCordoned}
	for _, n := range nodes {
		if n.hasGPUs() {
			r.fleet++
		}
		if n.isOurs() || n.Uncertain && now.Before(n.Retry) {
			r.cordoned++
		}
	}
	decisions := make([]Decision, 0, len(nodes))
	for _, n := range nodes {
		d := n.decide(s, now, r)
		if d.Do == Cordon {
			r.cordoned++
		}
		decisions = append(decisions, d)
	}
	return decisions
}

// isOurs says that the node is cordoned, and that it was done here.
func (f Facts) isOurs() bool { return f.Unschedulable && f.Marked }

// hasGPUs says that the node counts; one that is cordoned for its GPUs had some.
func (f Facts) hasGPUs() bool { return f.GPUs > 0 || f.isOurs() }

// room is how many nodes may be cordoned.
type room struct {
	limit           Amount
	fleet, cordoned int
}

func (r room) isFull() bool { return r.cordoned >= r.limit.atMost(r.fleet) }

// decide is about one node.
func (n Node) decide(s Settings, now time.Time, r room) Decision {
	d := Decision{Node: n.Name, Do: n.wish(s.level(n.Facts)), Why: fmt.Sprintf("%d/%d GPUs unhealthy, threshold %s", n.Unhealthy, n.GPUs, s.Threshold)}
	at := n.Retry
	if d.Do == Cordon || d.Do == Uncordon {
		at = latest(at, n.Since.Add(s.Wait))
	}
	switch {
	case d.Do != Nothing && now.Before(at):
		d.Do, d.At = Wait, at
	case d.Do == Cordon && r.isFull():
		d.Do = Refuse
		d.Why += fmt.Sprintf("; %d of %d GPU nodes are cordoned for their GPUs already, the most with --max-cordoned=%s", r.cordoned, r.fleet, r.limit)
	case d.Do == Overrule:
		d.Why = "uncordoned by hand"
	}
	return d
}

// wish is what would be done at once and without a bound.
func (n Node) wish(l level) Action {
	switch {
	case n.isOurs():
		if l == well || l == below {
			return Uncordon
		}
	case n.Marked:
		if l == well {
			return Forget
		}
		return Overrule // or else a later cordon by hand would look like ours
	case n.Overruled:
		if l == well {
			return Forget
		}
	case l == beyond && !n.Unschedulable:
		return Cordon
	}
	return Nothing
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
