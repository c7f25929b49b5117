// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package main

import (
	"cmp"
	"context"
	"errors"
	"time"
)

// Machines; the peer's figures are of such ones.
const (
	eight   = "8xh100-sxm5-80gb"
	sixteen = "16xa100-sxm4-40gb"
)

// measureLives starts the plugin again and again: the time to its list, what it takes while nothing happens, and its answers.
func (b *bench) measureLives(ctx context.Context, latency time.Duration, f figures) error {
	return b.on(eight, latency, func(n *node) error {
		for range b.repeat {
			if err := b.live(ctx, n, f); err != nil {
				return err
			}
		}
		return nil
	})
}

// live is one life of the plugin on 8 GPUs.
func (b *bench) live(ctx context.Context, n *node, f figures) (err error) {
	s, err := n.begin(b.template, b.configs[whole])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.end()) }()
	if err := s.until(ctx, offers{gpus: 8}); err != nil {
		return err
	}
	calls := n.calls(s.pid())
	_, lists := s.Stream(gpus)
	f.add(firstList, milliseconds(lists[0].At.Sub(s.started)))
	f.add(firstListCalls, float64(calls))
	if err := s.idle(ctx, b.idle, f); err != nil {
		return err
	}
	nothing, err := s.timeOptions(ctx, b.calls)
	if err != nil {
		return err
	}
	allocated, err := s.timeAllocate(ctx, b.calls)
	if err != nil {
		return err
	}
	preferred, err := s.timePreferred(ctx, b.calls, 4)
	if err != nil {
		return err
	}
	f.add(options, nothing)
	f.add(allocate, allocated)
	f.add(preferEight, preferred)
	anonymous, total, err := s.memory()
	f.add(anonymousAfter, anonymous)
	f.add(residentAfter, total)
	return err
}

// idle leaves the plugin alone: a settling time, then the time that counts.
func (s *session) idle(ctx context.Context, d time.Duration, f figures) error {
	if err := wait(ctx, min(d, 2*time.Second)); err != nil {
		return err
	}
	before, err := s.ticks()
	if err != nil {
		return err
	}
	if err := wait(ctx, d); err != nil {
		return err
	}
	after, err := s.ticks()
	anonymous, _, err2 := s.memory()
	f.add(idleTicks, float64(after-before)*float64(10*time.Second)/float64(d))
	f.add(anonymousIdle, anonymous)
	return cmp.Or(err, err2)
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// measureSixteen is the choice that takes a search over all sets the longest.
func (b *bench) measureSixteen(ctx context.Context, latency time.Duration, f figures) error {
	return b.on(sixteen, latency, func(n *node) (err error) {
		s, err := n.begin(b.template, b.configs[whole])
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.end()) }()
		if err := s.until(ctx, offers{gpus: 16}); err != nil {
			return err
		}
		for range b.repeat {
			took, err := s.timePreferred(ctx, b.calls, 3)
			if err != nil {
				return err
			}
			f.add(preferSixteen, took)
		}
		return nil
	})
}
