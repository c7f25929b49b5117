// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package boot

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"gpuslice/test/cluster/node"
)

func testSupervisor(t *testing.T, script string) (*supervisor, *errgroup.Group, node.Dir) {
	t.Helper()
	dir := node.Dir(t.TempDir())
	if err := os.Mkdir(dir.Logs(), 0o755); err != nil {
		t.Fatal(err)
	}
	group := new(errgroup.Group)
	s := newSupervisor(group, map[string]program{"p": {name: "p", path: "/bin/sh", args: []string{"-c", script}}}, dir)
	t.Cleanup(func() {
		if err := s.kill(); err != nil {
			t.Error(err)
		}
	})
	return s, group, dir
}

func awaitLog(t *testing.T, dir node.Dir, want string) {
	t.Helper()
	err := node.Until(t.Context(), 10*time.Second, "the program's output", func(context.Context) error {
		if got := tail(dir.Log("p")); got != want {
			return errors.New(got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A program that ends by itself fails the whole node, with its name, its status and its last words.
func TestUnaskedEndFailsTheGroup(t *testing.T) {
	tests := []struct{ name, why, script, want string }{
		{"failure", "the log says why", "echo bad flag; exit 3", "p ended unasked: exit status 3\nthe end of its log:\nbad flag"},
		{"success", "a server has no reason to end", "echo bye", "p ended unasked: exit status 0\nthe end of its log:\nbye"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, group, _ := testSupervisor(t, tt.script)
			if err := s.start("p"); err != nil {
				t.Fatal(err)
			}
			if err := group.Wait(); err == nil || err.Error() != tt.want {
				t.Errorf("err = %v; want %q: %s", err, tt.want, tt.why)
			}
		})
	}
}

func TestStopAndStart(t *testing.T) {
	s, group, dir := testSupervisor(t, "echo up; exec sleep 1000")
	if err := s.stop(t.Context(), "p"); err == nil {
		t.Error("a program that never ran was stopped")
	}
	for _, log := range []string{"up", "up\nup"} {
		if err := s.start("p"); err != nil {
			t.Fatal(err)
		}
		awaitLog(t, dir, log)
		if err := s.start("p"); err == nil {
			t.Error("a running program was started twice")
		}
		if err := s.stop(t.Context(), "p"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.start("q"); err == nil {
		t.Error("an unknown program was started")
	}
	if err := s.kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.start("p"); err == nil {
		t.Error("a program was started on a node that goes down")
	}
	if err := group.Wait(); err != nil {
		t.Errorf("stops that were asked for failed the group: %v", err)
	}
}

func TestStopByForce(t *testing.T) {
	s, group, dir := testSupervisor(t, "trap '' TERM; echo deaf; while :; do sleep 0.1; done")
	s.grace = 50 * time.Millisecond
	if err := s.start("p"); err != nil {
		t.Fatal(err)
	}
	awaitLog(t, dir, "deaf")
	if err := s.stop(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	if err := group.Wait(); err != nil {
		t.Errorf("a forced stop failed the group: %v", err)
	}
}

func TestTailIsShort(t *testing.T) {
	dir := node.Dir(t.TempDir())
	if err := os.Mkdir(dir.Logs(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir.Log("p"), []byte(strings.Repeat("old\n", 100)+"last\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	got := strings.Split(tail(dir.Log("p")), "\n")
	if len(got) != 20 || got[19] != "last" {
		t.Errorf("tail = %q", got)
	}
	if got := tail(dir.Log("q")); !strings.Contains(got, "no such file") {
		t.Errorf("tail of a missing log = %q", got)
	}
}

func TestShellStatus(t *testing.T) {
	tests := []struct {
		name, why string
		status    syscall.WaitStatus
		want      int
	}{
		{"success", "zero is success", 0, 0},
		{"failure", "the status of the command is the caller's", 7 << 8, 7},
		{"signal", "shells count signals from 128", syscall.WaitStatus(syscall.SIGKILL), 137},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := shellStatus(tt.status); got != tt.want {
				t.Errorf("shellStatus = %d, want %d: %s", got, tt.want, tt.why)
			}
		})
	}
}
