// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package library builds what a simulated driver installs: libnvidia-ml.so.1 in two ages, empty libraries that others look
// for, nvidia-smi, and a program that lists what NVML shows.
//
// The library is some hundred lines of C that send every call over a socket, compiled against nvml.h of the go-nvml module.
// The compiler is that of the package gcc.
package library

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"
)

//go:embed c
var sources embed.FS

// Age is the driver branch that a library pretends to belong to.
type Age string

const (
	// New has every function of nvml.h.
	New Age = "new"
	// Old has the functions of a driver before MIG; old-symbols.txt lists them.
	Old Age = "old"
)

// Companions are the driver's other libraries, by the name that applications load.
var Companions = []string{"libcuda.so.1", "libnvidia-ptxjitcompiler.so.1", "libnvidia-nvvm.so.4", "libnvidia-cfg.so.1"}

// SOName is what applications load for NVML.
const SOName = "libnvidia-ml.so.1"

// Artifacts is a folder with everything that was built.
type Artifacts struct{ dir string }

// In names the artifacts that an earlier Build left in a folder.
func In(dir string) Artifacts { return Artifacts{dir: dir} }

// NVML is the path of the library of an age.
func (a Artifacts) NVML(age Age) string {
	return filepath.Join(a.dir, string(age), SOName)
}

// Companion is the path of one of Companions.
func (a Artifacts) Companion(name string) string { return filepath.Join(a.dir, name) }

// SMI is the path of the static nvidia-smi.
func (a Artifacts) SMI() string { return filepath.Join(a.dir, "nvidia-smi") }

// List is the path of the program that lists what NVML shows. It needs the C library and the loader.
func (a Artifacts) List() string { return filepath.Join(a.dir, "gpu-list") }

// Build compiles everything into a folder. The caller's working directory must be inside this module, which says where
// nvml.h is.
func Build(ctx context.Context, dir string) (Artifacts, error) {
	b, err := newBuilder(ctx, dir)
	if err != nil {
		return Artifacts{}, err
	}
	defer os.RemoveAll(b.scratch)
	jobs, ctx := errgroup.WithContext(ctx)
	for _, age := range []Age{New, Old} {
		jobs.Go(func() error { return b.nvml(ctx, age) })
	}
	for _, name := range Companions {
		jobs.Go(func() error {
			return b.gcc(ctx, b.out.Companion(name), "-shared", "-fPIC", "-Wl,-soname,"+name, "-x", "c", os.DevNull)
		})
	}
	jobs.Go(func() error {
		return b.gcc(ctx, b.out.List(), "-Wall", "-Wextra", "-Werror", "-Wno-deprecated-declarations", "-I"+b.include, b.source("ls.c"))
	})
	jobs.Go(func() error { return b.smi(ctx) })
	return b.out, jobs.Wait()
}

type builder struct {
	out     Artifacts
	scratch string // sources on disk
	include string // folder of nvml.h
	header  []byte
}

func newBuilder(ctx context.Context, dir string) (builder, error) {
	module, err := run(ctx, nil, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml")
	if err != nil {
		return builder{}, fmt.Errorf("find nvml.h: %w", err)
	}
	b := builder{out: In(dir), include: filepath.Join(strings.TrimSpace(module), "pkg/nvml")}
	if b.header, err = os.ReadFile(filepath.Join(b.include, "nvml.h")); err != nil {
		return builder{}, fmt.Errorf("find nvml.h: %w", err)
	}
	if b.scratch, err = os.MkdirTemp("", "nvml-"); err != nil {
		return builder{}, fmt.Errorf("make scratch folder: %w", err)
	}
	exports, err := exportsOf(oldNames(), b.header)
	return b, errors.Join(
		err,
		os.CopyFS(b.scratch, sources),
		os.WriteFile(b.source("stubs.c"), stubs(b.header), 0o644),
		os.WriteFile(b.source("old.map"), exports, 0o644),
		os.MkdirAll(filepath.Join(dir, string(New)), 0o755),
		os.MkdirAll(filepath.Join(dir, string(Old)), 0o755),
	)
}

func (b builder) source(name string) string { return filepath.Join(b.scratch, "c", name) }

func (b builder) nvml(ctx context.Context, age Age) error {
	args := []string{
		"-shared", "-fPIC", "-pthread", "-Wall", "-Wextra", "-Werror", "-Wno-deprecated-declarations",
		"-DNVML_NO_UNVERSIONED_FUNC_DEFS=1", "-I" + b.include, "-Wl,-soname," + SOName,
	}
	if age == Old {
		args = append(args, "-Wl,--version-script="+b.source("old.map"))
	}
	for _, name := range []string{"transport.c", "nvml.c", "error.c", "stubs.c"} {
		args = append(args, b.source(name))
	}
	return b.gcc(ctx, b.out.NVML(age), args...)
}

func (b builder) smi(ctx context.Context) error {
	_, err := run(ctx, []string{"CGO_ENABLED=0"}, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", b.out.SMI(),
		"gpuslice/test/simdriver/nvidia-smi")
	return err
}

func (b builder) gcc(ctx context.Context, out string, args ...string) error {
	_, err := run(ctx, nil, "gcc", append([]string{"-O2", "-o", out}, args...)...)
	return err
}

func run(ctx context.Context, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("%s: %w: %s", name, err, exit.Stderr)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return string(out), nil
}
