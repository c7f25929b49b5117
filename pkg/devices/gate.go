// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// errSessionEnded is answered to calls about things of a session that is over.
var errSessionEnded = errors.New("the driver session was closed meanwhile")

// gate counts the calls under way, so that a session is closed only while there is none: the library takes a handle of a closed
// session for another thing's, or crashes.
type gate struct {
	mu         sync.Mutex
	calls      int
	shut       bool
	empty      chan struct{} // closed when the last call leaves a gate that is shut
	generation int           // counts sessions
	sets       []EventSet    // of the session
	opened     chan struct{} // closed when the next session opens; nil: nobody waits for it
}

// enter lets a call of a session pass; generation 0 is whichever is open.
func (g *gate) enter(generation int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut || generation != 0 && generation != g.generation {
		return errSessionEnded
	}
	g.calls++
	return nil
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls--
	if g.calls == 0 && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

func (g *gate) session() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.generation
}

// close shuts the gate and waits until the calls under way have returned. When they do not in time, it is open again.
func (g *gate) close(ctx context.Context, limit time.Duration) error {
	g.mu.Lock()
	g.shut = true
	empty := make(chan struct{})
	if g.calls == 0 {
		close(empty)
	} else {
		g.empty = empty
	}
	g.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-empty:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut, g.empty = false, nil
	return fmt.Errorf("close the driver session: %d calls have not returned: %w", g.calls, ErrHung)
}

// keep notes an event set that ends with the session.
func (g *gate) keep(s EventSet) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sets = append(g.sets, s)
}

func (g *gate) drop(s EventSet) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sets = slices.DeleteFunc(g.sets, func(other EventSet) bool { return other == s })
}

// takeSets returns the sets that the session still has, which nobody may close after it.
func (g *gate) takeSets() []EventSet {
	g.mu.Lock()
	defer g.mu.Unlock()
	sets := g.sets
	g.sets = nil
	return sets
}

// open lets calls of the next session pass.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
	g.generation++
	if g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}

// next returns a channel that is closed once there is a session after the given one.
func (g *gate) next(generation int) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened == nil {
		g.opened = make(chan struct{})
	}
	if next := g.opened; g.generation == generation {
		return next
	}
	now := make(chan struct{})
	close(now)
	return now
}
