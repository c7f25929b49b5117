// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package node

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// pollInterval is how often a condition is looked at.
const pollInterval = 50 * time.Millisecond

type hopeless struct{ error }

func (h hopeless) Unwrap() error { return h.error }

// Hopeless marks an error of a probe that waiting will not heal.
func Hopeless(err error) error { return hopeless{err} }

// Until calls probe until it returns nil. It gives up after limit, or at a Hopeless error, and then says what it waited for and
// what the probe missed last.
func Until(ctx context.Context, limit time.Duration, what string, probe func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %v", limit))
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var missed error
	for {
		err := probe(ctx)
		if err == nil {
			return nil
		}
		if missed != nil && ctx.Err() != nil {
			err = missed // that the probe was broken off says less
		}
		missed = err
		if errors.As(err, new(hopeless)) {
			return fmt.Errorf("wait for %s: %w", what, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w: %w", what, context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}
