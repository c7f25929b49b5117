// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/klog/v2"
)

// Endpoints is what a process tells over HTTP.
type Endpoints struct {
	// Ready returns why the process is not ready, or nil.
	Ready func() error
	// Status returns the document of /status.
	Status func() any
	// Metrics answers /metrics; nil: there are none.
	Metrics http.Handler
}

// Serve answers /healthz, /readyz, /status and /metrics on an address until ctx ends. An empty address serves nothing.
func Serve(ctx context.Context, address string, e Endpoints) error {
	if address == "" {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", address, err)
	}
	server := &http.Server{Handler: e.handler(ctx), ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // what is being answered is cut off: nothing here is worth waiting for
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", address, err)
	}
	return nil
}

func (e Endpoints) handler(ctx context.Context) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := e.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(e.Status()); err != nil {
			klog.FromContext(ctx).Error(err, "Status not written")
		}
	})
	if e.Metrics != nil {
		mux.Handle("GET /metrics", e.Metrics)
	}
	return mux
}
