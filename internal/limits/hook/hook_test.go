// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package hook_test

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gpuslice/internal/limits/hook"
)

// containerd and crio are what the two runtimes hand over, with what is not read of it left out.
const (
	containerd = `{"ociVersion":"1.2.1","id":"c1","status":"creating","pid":42,"bundle":"/b","annotations":{"io.kubernetes.cri.container-type":"container","io.kubernetes.cri.sandbox-uid":"u1","io.kubernetes.cri.container-name":"main"}}`
	crio       = `{"ociVersion":"1.2.1","id":"c1","status":"creating","pid":42,"annotations":{"io.kubernetes.pod.uid":"u1","io.kubernetes.container.name":"main"}}`
)

// socket is a path that is short enough for one.
func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "h")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "s")
}

// serve answers one connection after the other with the given text; "" closes it without a word.
func serve(t *testing.T, path string, answers ...string) <-chan hook.Request {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() }) // the last answer has closed it
	asked := make(chan hook.Request, len(answers))
	go func() {
		defer listener.Close()
		for _, answer := range answers {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			var r hook.Request
			if json.NewDecoder(conn).Decode(&r) == nil {
				asked <- r
			}
			_, _ = io.WriteString(conn, answer) // what the hook makes of it is what is tested
			conn.Close()
		}
	}()
	return asked
}

func TestTheAgentIsAsked(t *testing.T) {
	for why, state := range map[string]string{"containerd": containerd, "CRI-O": crio} {
		path := socket(t)
		asked := serve(t, path, "{}\n")
		if err := hook.Run(t.Context(), []string{"--socket=" + path, "GPU-a", "GPU-b"}, strings.NewReader(state)); err != nil {
			t.Errorf("%s: %v", why, err)
			continue
		}
		want := hook.Request{ID: "c1", PID: 42, PodUID: "u1", Name: "main", Devices: []string{"GPU-a", "GPU-b"}}
		if diff := cmp.Diff(want, <-asked); diff != "" {
			t.Errorf("%s (-want +got):\n%s", why, diff)
		}
	}
}

// P6: an agent that dies with the request in its hands is asked again when it is back; its refusal is final and is passed on.
func TestTheAgentStartsAnew(t *testing.T) {
	path := socket(t)
	asked := serve(t, path, "", "{\"err", `{"error":"the GPU is full"}`)
	err := hook.Run(t.Context(), []string{"--socket=" + path, "GPU-a"}, strings.NewReader(containerd))
	if err == nil || !strings.Contains(err.Error(), "GPU-a") || !strings.Contains(err.Error(), "u1/main") || !strings.Contains(err.Error(), "the GPU is full") {
		t.Errorf("%v", err)
	}
	if len(asked) != 3 {
		t.Errorf("asked %d times", len(asked))
	}
}

// P11: nobody waits for longer than 5 s, whoever does not answer.
func TestNobodyAnswers(t *testing.T) {
	silent := socket(t)
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: silent})
	if err != nil {
		t.Fatal(err)
	}
	never, write := io.Pipe()
	t.Cleanup(func() { listener.Close(); write.Close() })
	for _, tc := range []struct {
		why, socket string
		stdin       io.Reader
		says        string
	}{
		{"there is no agent", socket(t), strings.NewReader(containerd), "does not answer on"},
		{"the agent hangs", silent, strings.NewReader(containerd), "does not answer on"},
		{"the runtime hangs", silent, never, "handed over no state"},
	} {
		t.Run(tc.why, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			err := hook.Run(t.Context(), []string{"--socket=" + tc.socket, "GPU-a"}, tc.stdin)
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v, want %q", err, tc.says)
			}
			if took := time.Since(start); took >= 5*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestWhatCannotBeAsked(t *testing.T) {
	for _, tc := range []struct{ why, state, says string }{
		{"no JSON", "hello", "read the state"},
		{"nothing", "", "read the state"},
		{"too much", `{"id":"` + strings.Repeat("x", 2<<20) + `"}`, "read the state"},
		{"no process", `{"id":"c1"}`, "pid 0"},
		{"a process that cannot be", `{"id":"c1","pid":-1}`, "pid -1"},
		{"no pod", `{"id":"c1","pid":42}`, "does not say whose container c1 is"},
		{"half a pod", `{"id":"c1","pid":42,"annotations":{"io.kubernetes.cri.sandbox-uid":"u1"}}`, "does not say whose container c1 is"},
	} {
		if err := hook.Run(t.Context(), []string{"--socket=/none", "GPU-a"}, strings.NewReader(tc.state)); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want %q", tc.why, err, tc.says)
		}
	}
	for _, args := range [][]string{{}, {"--sock=/x", "GPU-a"}} {
		if err := hook.Run(t.Context(), args, strings.NewReader(containerd)); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}
