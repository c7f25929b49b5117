// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package drivertest_test checks the simulated driver with what reads the real one: this project's adapter, NVIDIA's own
// libraries for Go and for CDI, and plain programs.
package drivertest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"gpuslice/pkg/devices/nvml"
	"gpuslice/test/simdriver/library"
	"gpuslice/test/simdriver/remote"
)

// artifacts are built once, before the tests.
var artifacts library.Artifacts

// roles are what this program is when it is called again by a test: the name, then the driver root.
var roles = map[string]func(root string) error{
	"client":    client,
	"nobody":    nobody,
	"powerless": powerless,
	"visitors":  printVisitors,
	"cdi":       printCDI,
	"raw":       printRaw,
}

// nobodyID is a user without any right.
const nobodyID = 65534

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && roles[os.Args[1]] != nil {
		if err := roles[os.Args[1]](os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "simdriver-")
	if err == nil {
		defer os.RemoveAll(dir)
		// A test has no context before it runs.
		artifacts, err = library.Build(context.Background(), dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// client serves the adapter to the test that started it.
func client(root string) error {
	return remote.Serve(nvml.New(nvml.Options{DriverRoot: root}), os.Stdin, os.Stdout)
}

// nobody is a client without rights.
func nobody(root string) error {
	err := errors.Join(
		unix.Setgroups(nil), unix.Setresgid(nobodyID, nobodyID, nobodyID), unix.Setresuid(nobodyID, nobodyID, nobodyID),
		// The kernel hides the files of a process that changed its user from the process itself.
		unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0),
	)
	if err != nil {
		return fmt.Errorf("become nobody: %w", err)
	}
	return client(root)
}

// powerless is a client of user 0 without CAP_SYS_ADMIN, as the first process of most containers is.
func powerless(root string) error {
	runtime.LockOSThread() // the kernel keeps rights by thread
	self, err := os.Executable()
	if err := errors.Join(err, unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_SYS_ADMIN, 0, 0, 0)); err != nil {
		return fmt.Errorf("become powerless: %w", err)
	}
	return unix.Exec(self, []string{self, "client", root}, os.Environ())
}
