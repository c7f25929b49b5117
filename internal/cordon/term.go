// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package cordon

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// Bounds of attempts on one node, and on one call.
const (
	firstRetry = time.Second
	lastRetry  = 5 * time.Minute
	callLimit  = 10 * time.Second
)

// eventKept is how long an API server keeps an Event.
const eventKept = time.Hour

// term is what one holder of the Lease remembers. It may be lost at any time: the clocks then begin again.
type term struct {
	*Controller
	known   map[string]*memory
	backoff workqueue.TypedRateLimiter[types.UID]
}

// memory is of one node.
type memory struct {
	uid       types.UID
	side      level     // beyond, or below
	since     time.Time // it has been there
	retry     time.Time
	uncertain bool
	told      time.Time // when it was said last that it is one too many
	// patched is the node after the last patch, in place of base, until the informer has brought it.
	patched *corev1.Node
	base    string
}

func newTerm(c *Controller) *term {
	return &term{
		Controller: c, known: map[string]*memory{},
		backoff: workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](firstRetry, lastRetry),
	}
}

// pass looks at all nodes once and does what is to be done. It returns when to look again if nothing changes; zero is never.
func (t *term) pass(ctx context.Context, list []*corev1.Node, now time.Time) time.Time {
	current, nodes := t.look(list, now)
	status := Status{}
	for _, n := range nodes {
		if n.hasGPUs() {
			status.GPUNodes++
		}
		if n.isOurs() {
			status.Cordoned = append(status.Cordoned, n.Name)
		}
	}
	var next time.Time
	at := func(when time.Time) {
		if next.IsZero() || when.Before(next) {
			next = when
		}
	}
	for _, d := range Decide(nodes, t.settings, now) {
		switch d.Do {
		case Nothing:
		case Wait:
			at(d.At)
		case Refuse:
			status.Refused = append(status.Refused, d.Node)
			at(t.tell(ctx, d, now))
		default:
			t.carryOut(ctx, d, current[d.Node])
			at(now) // what it has changed may make room
		}
	}
	slices.Sort(status.Cordoned)
	slices.Sort(status.Refused)
	t.status.Store(&status)
	return next
}

// look brings the memory up to date. What was patched counts at once, before the informer brings it.
func (t *term) look(list []*corev1.Node, now time.Time) (map[string]*corev1.Node, []Node) {
	current, nodes, known := map[string]*corev1.Node{}, []Node{}, map[string]*memory{}
	for _, n := range list {
		m := t.known[n.Name]
		if m == nil || m.uid != n.UID {
			m = &memory{uid: n.UID}
		}
		known[n.Name] = m
		// The patch was made to exactly this version, so any other that is brought has it.
		if m.patched != nil && n.ResourceVersion == m.base {
			n = m.patched
		} else {
			m.patched = nil
		}
		f := FactsOf(n)
		m.see(t.settings.level(f), now)
		current[n.Name] = n
		nodes = append(nodes, Node{Facts: f, Since: m.since, Retry: m.retry, Uncertain: m.uncertain})
	}
	for name, m := range t.known {
		if known[name] != m {
			t.backoff.Forget(m.uid)
		}
	}
	t.known = known
	return current, nodes
}

// see starts the clock when the node comes to the other side of the threshold, or is seen again.
func (m *memory) see(l level, now time.Time) {
	if l == well {
		l = below
	}
	if m.side != l || m.since.IsZero() {
		m.side, m.since = l, now
	}
}

// carryOut does what is decided, and notes how it went.
func (t *term) carryOut(ctx context.Context, d Decision, n *corev1.Node) {
	log, m := klog.FromContext(ctx), t.known[d.Node]
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	patched, err := t.patch(ctx, d, n)
	if err != nil {
		m.retry = time.Now().Add(t.backoff.When(m.uid))
		if !apierrors.IsConflict(err) { // which may be with an attempt before
			m.uncertain = d.Do == Cordon && !isRefusal(err)
		}
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			log.V(2).Info("Node has changed; looking again", "node", d.Node, "todo", d.Do)
			return
		}
		log.Error(err, "Trying again", "node", d.Node, "todo", d.Do, "at", m.retry)
		return
	}
	t.backoff.Forget(m.uid)
	m.retry, m.uncertain, m.told = time.Time{}, false, time.Time{}
	m.patched, m.base = patched, n.ResourceVersion
	log.Info("Done", "node", d.Node, "did", d.Do, "why", d.Why)
	if e, said := events[d.Do]; said {
		t.say(ctx, d, e)
	}
}

// tell says that a node is one too many, and says it again only when the Event is gone. It returns when that is.
func (t *term) tell(ctx context.Context, d Decision, now time.Time) time.Time {
	m := t.known[d.Node]
	if m.told.IsZero() || !now.Before(m.told.Add(eventKept)) {
		m.told = now
		klog.FromContext(ctx).Info("Not cordoned", "node", d.Node, "why", d.Why)
		ctx, cancel := context.WithTimeout(ctx, callLimit)
		defer cancel()
		t.say(ctx, d, events[Refuse])
	}
	return m.told.Add(eventKept)
}

// isRefusal says that the server has surely not done what was asked.
func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsNotFound(err) || apierrors.IsTooManyRequests(err)
}

// patch makes one change of a version of a Node, and none if the Node is another by now.
func (t *term) patch(ctx context.Context, d Decision, n *corev1.Node) (*corev1.Node, error) {
	text, err := patchOf(d, n.ResourceVersion)
	if err != nil {
		return nil, fmt.Errorf("%s node %s: %w", d.Do, n.Name, err)
	}
	patched, err := t.client.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, text, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return nil, fmt.Errorf("%s node %s: %w", d.Do, n.Name, err)
	}
	return patched, nil
}
