// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// lines passes on what a command writes, one line at a time.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// The commands work together: build once, serve, ask, change, ask again.
func TestCommands(t *testing.T) {
	artifacts, root := t.TempDir(), t.TempDir()
	common := []string{"--root", root, "--artifacts", artifacts}
	do := func(command string, words ...string) string {
		t.Helper()
		var out bytes.Buffer
		if err := run(t.Context(), append(append([]string{command}, common...), words...), &out); err != nil {
			t.Fatalf("%s %v: %v", command, words, err)
		}
		return out.String()
	}
	if err := run(t.Context(), []string{"build", "--artifacts", artifacts}, io.Discard); err != nil {
		t.Fatal(err)
	}
	machine := filepath.Join(t.TempDir(), "machine.yaml")
	if err := os.WriteFile(machine, []byte("gpus: [{model: l40s, uuid: GPU-1}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	do("render", "--machine", "@"+machine)
	if _, err := os.Stat(filepath.Join(root, "dev/nvidia0")); err != nil {
		t.Error(err)
	}

	ctx, stop := context.WithCancel(t.Context())
	ready, ended := make(lines, 1), make(chan error, 1)
	go func() { ended <- run(ctx, append([]string{"daemon", "--machine", "@" + machine}, common...), ready) }()
	if got := <-ready; got != "ready: "+root+"\n" {
		t.Errorf("daemon says %q", got)
	}
	if got, want := do("ls"), "GPU 0: NVIDIA L40S (UUID: GPU-1)\n"; got != want {
		t.Errorf("ls prints %q, want %q", got, want)
	}
	do("ctl", "lose", "0")
	if got, want := do("ls"), "Unable to determine the device handle for gpu 0: GPU is lost\n"; got != want {
		t.Errorf("ls prints %q, want %q", got, want)
	}
	if got := do("ctl", "dump"); got != "gpu-0 l40s lost\n" {
		t.Errorf("dump prints %q", got)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestWrongCommandLinesAreRefused(t *testing.T) {
	for want, args := range map[string][]string{
		"usage: simdriver":                         {},
		"usage: simdriver daemon":                  {"explode"},
		"--library=ancient is neither new nor old": {"daemon", "--library", "ancient"},
		"build: --artifacts is missing":            {"build"},
		"/proc belongs to the running kernel":      {"render", "--root", t.TempDir(), "--proc-root", "/proc", "--artifacts", "x"},
		"unknown model \"voodoo\"":                 {"render", "--machine", "1xvoodoo"},
		"flag provided but not defined":            {"render", "--colour"},
		"reach the daemon":                         {"ctl", "--root", t.TempDir(), "dump"},
	} {
		err := run(t.Context(), args, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
	var out bytes.Buffer
	if err := run(t.Context(), []string{"ctl", "help"}, &out); err != nil || !strings.Contains(out.String(), "  lose GPU\n") {
		t.Errorf("help: %v, %q", errors.Join(err), out.String())
	}
}
