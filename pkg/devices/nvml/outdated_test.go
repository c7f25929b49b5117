// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build cgo

package nvml

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpuslice/pkg/devices"
)

// K09, K10: a library that the driver refuses is tried again as long as it is the one that is installed; when another has come, which
// this process cannot load any more, that is said.
func TestOutdatedLibrary(t *testing.T) {
	loaded = library{}
	root := t.TempDir()
	install := func(version int) { compile(t, root, version) }
	for _, tc := range []struct {
		what     string
		before   func()
		outdated bool
	}{
		{"the first", func() { install(1) }, false},
		{"the same again", func() {}, false},
		{"another", func() { install(2) }, true},
		{"still another", func() {}, true},
	} {
		tc.before()
		err := New(Options{DriverRoot: root}).Init()
		if !errors.Is(err, devices.ErrDriverNotLoaded) || errors.Is(err, devices.ErrOutdatedLibrary) != tc.outdated {
			t.Errorf("%s: %v; outdated: want %v", tc.what, err, tc.outdated)
		}
	}
}

// compile installs a library whose driver is not loaded.
func compile(t *testing.T, root string, version int) string {
	t.Helper()
	path := filepath.Join(root, "usr/lib64", libraryName)
	source := filepath.Join(root, "refusing.c")
	text := fmt.Sprintf("int version = %d;\nint nvmlInit_v2(void) { return 9; }\nint nvmlInit(void) { return 9; }\nint nvmlShutdown(void) { return 1; }\n", version)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(source, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "gcc", "-shared", "-fPIC", "-o", path+".new", source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}

// P11: a library that is being copied, or is none, is named and waited for; loading it would end the process.
func TestLibraryThatIsNotWhole(t *testing.T) {
	root := t.TempDir()
	path := compile(t, root, 1)
	all, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		what    string
		content []byte
		says    string
	}{
		{"empty", nil, "is no whole library"},
		{"garbage", bytes.Repeat([]byte("x"), 4096), "is no whole library"},
		{"a header only", all[:4096], "is no whole library"},
		{"all but the end of what is loaded", all[:len(all)/2], "is no whole library"},
		{"whole", all, "DRIVER_NOT_LOADED"},
	} {
		loaded = library{}
		if err := os.WriteFile(path, tc.content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := New(Options{DriverRoot: root}).Init(); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want a word on %q", tc.what, err, tc.says)
		}
	}
}
