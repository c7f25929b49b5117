// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package boot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"golang.org/x/sync/errgroup"

	"gpuslice/test/cluster/node"
)

// switchboard starts and stops programs by name.
type switchboard interface {
	start(name string) error
	stop(ctx context.Context, name string) error
}

// controlHandler serves POST /start?program=NAME and POST /stop?program=NAME.
func controlHandler(board switchboard) http.Handler {
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, err error) {
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		}
	}
	mux.HandleFunc("POST /start", func(w http.ResponseWriter, r *http.Request) { answer(w, board.start(r.FormValue("program"))) })
	mux.HandleFunc("POST /stop", func(w http.ResponseWriter, r *http.Request) {
		answer(w, board.stop(r.Context(), r.FormValue("program")))
	})
	return mux
}

// serveControl lets other processes of the cluster start and stop programs, until the returned function is called.
func serveControl(group *errgroup.Group, dir node.Dir, board switchboard) (end func() error, err error) {
	listener, err := net.Listen("unix", dir.ControlSocket())
	if err != nil {
		return nil, fmt.Errorf("serve the control socket: %w", err)
	}
	server := &http.Server{Handler: controlHandler(board)}
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve the control socket: %w", err)
		}
		return nil
	})
	return server.Close, nil
}
