// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package agent

import (
	"maps"
	"sync"
	"time"
)

const (
	firstRetry = time.Second
	lastRetry  = time.Minute
	// shortestWait keeps a retry that is overdue from turning into a loop.
	shortestWait = 100 * time.Millisecond
)

// backoff spaces out attempts to apply plans that the driver refuses, per GPU, without a new edit (P11).
type backoff struct {
	mu    sync.Mutex
	state map[string]attempt // by GPU name
}

type attempt struct {
	plan  string
	delay time.Duration
	next  time.Time
}

// allows says whether a plan may be tried now; a plan that was not tried before always may.
func (b *backoff) allows(gpu, plan string, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok := b.state[gpu]
	return !ok || s.plan != plan || !now.Before(s.next)
}

func (b *backoff) failed(gpu, plan string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == nil {
		b.state = map[string]attempt{}
	}
	s := b.state[gpu]
	if s.plan != plan {
		s = attempt{plan: plan}
	}
	s.delay = min(max(2*s.delay, firstRetry), lastRetry)
	s.next = now.Add(s.delay)
	b.state[gpu] = s
}

// keepOnly forgets attempts on GPUs that have no plan to be tried: done, blocked, paused or gone.
func (b *backoff) keepOnly(waiting map[string]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.state, func(gpu string, _ attempt) bool { return !waiting[gpu] })
}

// wait returns a channel that fires when the first attempt is due; nil, which never fires, when none is.
func (b *backoff) wait() <-chan time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	var next time.Time
	for _, s := range b.state {
		if next.IsZero() || s.next.Before(next) {
			next = s.next
		}
	}
	if next.IsZero() {
		return nil
	}
	return time.After(max(time.Until(next), shortestWait))
}
