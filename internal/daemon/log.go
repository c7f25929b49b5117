// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package daemon

import (
	"context"
	"io"
	"log/slog"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// WithLogger returns a context whose logger writes text or JSON lines. Libraries that log through klog write there too.
func WithLogger(ctx context.Context, w io.Writer, format string, verbosity int) context.Context {
	// logr's verbosity n is slog's level -n.
	options := &slog.HandlerOptions{Level: slog.Level(-verbosity)}
	var handler slog.Handler = slog.NewTextHandler(w, options)
	if format == "json" {
		handler = slog.NewJSONHandler(w, options)
	}
	logger := logr.FromSlogHandler(handler)
	klog.SetLoggerWithOptions(logger, klog.ContextualLogger(true))
	return klog.NewContext(ctx, logger)
}
