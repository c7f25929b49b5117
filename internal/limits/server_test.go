// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package limits_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuslice/internal/agent"
	"gpuslice/internal/limits"
	"gpuslice/internal/limits/hook"
)

// recorder is an agent that answers what the test wants and keeps what it was asked.
type recorder struct {
	mu     sync.Mutex
	asked  []string
	answer func(ctx context.Context) error
}

func (r *recorder) LimitMemory(ctx context.Context, c agent.Container, uuids []string) error {
	r.mu.Lock()
	r.asked = append(r.asked, fmt.Sprintf("%s %d %s %v", c.ID, c.PID, c, uuids))
	answer := r.answer
	r.mu.Unlock()
	if answer == nil {
		return nil
	}
	return answer(ctx)
}

// serve runs a server until the test ends; it returns the socket.
func serve(t *testing.T, a limits.Agent) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "l") // socket paths are limited to 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- limits.New(a, dir).Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "plugins/gpu.nvidia.com/gpuslice.sock")
}

const state = `{"id":"c1","pid":42,"annotations":{"io.kubernetes.cri.sandbox-uid":"u1","io.kubernetes.cri.container-name":"main"}}`

func ask(t *testing.T, socket string) error {
	t.Helper()
	return hook.Run(t.Context(), []string{"--socket=" + socket, "GPU-a"}, strings.NewReader(state))
}

func TestHookReachesTheAgent(t *testing.T) {
	r := &recorder{}
	socket := serve(t, r)
	if err := ask(t, socket); err != nil { // which waits for the server to be there
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"c1 42 container main of pod u1 [GPU-a]"}, r.asked); diff != "" {
		t.Error(diff)
	}
	r.answer = func(context.Context) error { return errors.New("the GPU is gone") }
	if err := ask(t, socket); err == nil || !strings.Contains(err.Error(), "the GPU is gone") {
		t.Errorf("%v", err)
	}
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket is %v, %v", info.Mode(), err)
	}
}

// P11: an agent that hangs answers nobody for longer than 4 s, and the hook has the reason; others are answered meanwhile.
func TestHungAgentDelaysNobodyElse(t *testing.T) {
	r := &recorder{}
	socket := serve(t, r)
	first := true
	r.answer = func(ctx context.Context) error {
		r.mu.Lock()
		hangs := first
		first = false
		r.mu.Unlock()
		if !hangs {
			return nil
		}
		<-ctx.Done()
		return fmt.Errorf("GPU does not answer: %w", context.Cause(ctx))
	}
	start := time.Now()
	slow := make(chan error, 1)
	go func() { slow <- ask(t, socket) }()
	for tick := time.NewTicker(50 * time.Millisecond); ; <-tick.C {
		r.mu.Lock()
		asked := len(r.asked)
		r.mu.Unlock()
		if asked > 0 {
			break
		}
	}
	if err := ask(t, socket); err != nil || time.Since(start) > 3*time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
	if err := <-slow; err == nil || !strings.Contains(err.Error(), "GPU does not answer") || time.Since(start) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
}

// Garbage is answered, costs at most 64 KiB, and harms nobody; a socket that is removed is made again.
func TestGarbageAndARemovedSocket(t *testing.T) {
	r := &recorder{}
	socket := serve(t, r)
	if err := ask(t, socket); err != nil {
		t.Fatal(err)
	}
	for why, text := range map[string]string{
		"no JSON": "hello\n", "another type": "[1]\n", "half a request": `{"id":` + "\x00", "too much": `{"id":"` + strings.Repeat("x", 1<<20),
	} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, text) // the server may have had enough
		var a hook.Answer
		if err := json.NewDecoder(conn).Decode(&a); err == nil && !strings.Contains(a.Error, "65536 bytes") {
			t.Errorf("%s: answered %+v", why, a)
		}
		conn.Close()
	}
	if len(r.asked) != 1 {
		t.Errorf("the agent was asked %q", r.asked)
	}
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	if err := ask(t, socket); err != nil {
		t.Errorf("after the socket was removed: %v", err)
	}
}
