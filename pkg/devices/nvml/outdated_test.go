// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

//go:build cgo

package nvml

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"gpuslice/pkg/devices"
)

// K09, K10: a library that the driver refuses is tried again as long as it is the one that is installed; when another has come, which
// this process cannot load any more, that is said.
func TestOutdatedLibrary(t *testing.T) {
	loaded = library{}
	root := t.TempDir()
	install := func(version int) {
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
	}
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
