// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// ErrHung is wrapped when the driver did not answer in time. The call cannot be cancelled: it is abandoned with its thread,
// and its GPU is not called again before it returns (P11).
var ErrHung = errors.New("driver does not answer")

// maxAbandoned is how many calls may hang at once before a new process is the better remedy.
const maxAbandoned = 8

// bounds runs driver calls with a limit and remembers which GPUs have a call that never came back.
type bounds struct {
	limit time.Duration

	mu      sync.Mutex
	hanging map[string]abandoned // by key: bus id, or "" for the library
	count   int                  // of those that are late
}

// abandoned is a call that was left alone.
type abandoned struct {
	operation string
	late      bool // it took longer than its limit; one that was broken off by its caller has done nothing wrong
}

func newBounds(limit time.Duration) *bounds {
	return &bounds{limit: limit, hanging: map[string]abandoned{}}
}

// do runs fn, which calls the driver on behalf of one GPU, for at most the limit.
func (b *bounds) do(ctx context.Context, key, operation string, fn func() error) error {
	if err := b.suspect(key); err != nil {
		return err
	}
	done, returned := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(returned)
		done <- fn()
	}()
	timer := time.NewTimer(b.limit)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		b.abandon(key, abandoned{operation, true}, returned)
		return fmt.Errorf("%s for %v: %w", operation, b.limit, ErrHung)
	case <-ctx.Done():
		b.abandon(key, abandoned{operation, false}, returned)
		return fmt.Errorf("%s: %w", operation, context.Cause(ctx))
	}
}

func (b *bounds) suspect(key string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if call, ok := b.hanging[key]; ok {
		return fmt.Errorf("%s has not returned yet: %w", call.operation, ErrHung)
	}
	return nil
}

// isAnyLate says that some call hangs.
func (b *bounds) isAnyLate() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count > 0
}

// abandon leaves the call alone and lifts the suspicion if it ever returns.
func (b *bounds) abandon(key string, call abandoned, returned <-chan struct{}) {
	change := func(by int) {
		if call.late {
			b.count += by
		}
	}
	b.mu.Lock()
	b.hanging[key] = call
	change(1)
	b.mu.Unlock()
	go func() {
		<-returned
		b.mu.Lock()
		delete(b.hanging, key)
		change(-1)
		b.mu.Unlock()
	}()
}

// exhausted says whether too many calls hang, or calls on every GPU of a node that has several: then it is not one GPU that
// is ill but this process's way to the driver.
func (b *bounds) exhausted(gpus int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	ill := 0
	for key, call := range b.hanging {
		if call.late && strings.Contains(key, ":") {
			ill++
		}
	}
	return b.count >= maxAbandoned || gpus > 1 && ill >= gpus
}
