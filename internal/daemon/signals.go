// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package daemon

import (
	"context"
	"os/signal"
	"syscall"
)

// WithSignals ends the context at the first SIGTERM or interrupt; a second one then kills the process as it would any other,
// so that a shutdown that hangs can be cut short.
func WithSignals(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
