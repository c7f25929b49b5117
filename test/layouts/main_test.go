// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package layouts_test runs the shipped agent on every place where a driver may be installed, upgrades the driver under it, and
// takes away from it the folder for its specs.
//
// The tests run in a mount namespace of their own, in which they mount what they need; what stands there is nobody else's.
package layouts_test

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

var (
	bin       string // folder of the binaries
	artifacts library.Artifacts
)

func TestMain(m *testing.M) {
	if os.Getenv(inside) == "" {
		os.Exit(enter())
	}
	dir, err := os.MkdirTemp("", "layouts")
	if err == nil {
		err = errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), build(dir))
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
func build(dir string) (err error) {
	if err := os.Chdir("../.."); err != nil {
		return err
	}
	bin = dir
	for name, cgo := range map[string]string{"gpu-plugin": "1", "gpuslice-hook": "0"} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, name), "./cmd/"+name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w: %s", name, err, out)
		}
	}
	artifacts, err = library.Build(context.Background(), filepath.Join(dir, "driver"))
	return err
}
