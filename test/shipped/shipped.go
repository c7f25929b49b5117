// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package shipped builds the programs as they are shipped, and a simulated driver, for tests that run them in a mount namespace of
// their own: what stands where such a test mounts something is nobody else's.
package shipped

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gpuslice/test/simdriver/library"
)

// inside marks the process that is in the namespace.
const inside = "GPUSLICE_TEST_NAMESPACE"

// Build is what was built.
type Build struct {
	Bin    string // folder of the binaries
	Driver library.Artifacts
}

// Main is the TestMain of a package: it ends the process. The tests find the build at b, and themselves at the root of the tree.
func Main(m *testing.M, b *Build) {
	if os.Getenv(inside) == "" {
		os.Exit(enter())
	}
	dir, err := os.MkdirTemp("", "shipped")
	if err == nil {
		err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	}
	if err == nil {
		*b, err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(status)
}

// enter runs this very test again, in a mount namespace of its own.
func enter() int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "these tests need root, for a mount namespace of their own:", err)
		return 1
	}
	return 0
}

// build makes the binaries as `make build` does.
func build(dir string) (Build, error) {
	if err := os.Chdir("../.."); err != nil {
		return Build{}, err
	}
	for name, cgo := range map[string]string{"gpu-plugin": "1", "gpuslice-hook": "0"} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, name), "./cmd/"+name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
		if out, err := cmd.CombinedOutput(); err != nil {
			return Build{}, fmt.Errorf("build %s: %w: %s", name, err, out)
		}
	}
	driver, err := library.Build(context.Background(), filepath.Join(dir, "driver")) // TestMain has no context to pass on
	return Build{dir, driver}, err
}
