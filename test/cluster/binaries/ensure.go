// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package binaries

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CacheDir is where programs are kept between runs: gpuslice/bin in the user's cache folder.
func CacheDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder: %w", err)
	}
	return filepath.Join(cache, "gpuslice", "bin"), nil
}

// ModulesDir finds test/cluster/modules of the repository that holds the working directory.
func ModulesDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for {
		modules := filepath.Join(dir, "test", "cluster", "modules")
		if info, err := os.Stat(modules); err == nil && info.IsDir() {
			return modules, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("find the repository: no folder above the working directory has test/cluster/modules")
		}
		dir = parent
	}
}

// Ensure builds what the cache lacks and returns the absolute path of every program by name.
// It tells progress what it builds and how long that took. Concurrent calls wait for each other.
func Ensure(ctx context.Context, modulesDir, cache string, modules []Module, progress io.Writer) (map[string]string, error) {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, fmt.Errorf("create the program cache: %w", err)
	}
	unlock, err := lock(filepath.Join(cache, ".lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	paths := map[string]string{}
	for _, module := range modules {
		dir := filepath.Join(modulesDir, module.Folder)
		goMod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err != nil {
			return nil, fmt.Errorf("read the version of %s: %w", module.Folder, err)
		}
		version, err := requiredVersion(string(goMod), module.Path)
		if err != nil {
			return nil, fmt.Errorf("read the version of %s: %w", module.Folder, err)
		}
		for _, program := range module.Names() {
			path := filepath.Join(module.cacheDir(cache, version), program)
			if err := ensure(ctx, module, program, version, dir, path, progress); err != nil {
				return nil, err
			}
			paths[program] = path
		}
	}
	return paths, nil
}

func ensure(ctx context.Context, m Module, program, version, dir, path string, progress io.Writer) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for %s: %w", program, err)
	}
	start := time.Now()
	fmt.Fprintf(progress, "%s %s: building, which may take minutes\n", program, version)
	if err := build(ctx, m, program, version, dir, path); err != nil {
		return err
	}
	fmt.Fprintf(progress, "%s %s: built in %.1f s\n", program, version, time.Since(start).Seconds())
	return nil
}

// build writes to a temporary folder first, so that the cache never holds half a program.
func build(ctx context.Context, m Module, program, version, dir, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("create the folder of %s: %w", program, err)
	}
	temporary, err := os.MkdirTemp(filepath.Dir(path), ".build-")
	if err != nil {
		return fmt.Errorf("create the build folder of %s: %w", program, err)
	}
	defer os.RemoveAll(temporary)
	file := filepath.Join(temporary, program)
	command := exec.CommandContext(ctx, "go", m.buildArgs(program, version, file)...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if m.Cgo {
		command.Env = append(command.Env, "CGO_ENABLED=1")
	}
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s %s: %w\n%s", program, version, err, strings.TrimSpace(string(output)))
	}
	if err := os.Rename(file, path); err != nil {
		return fmt.Errorf("keep %s: %w", program, err)
	}
	return nil
}

func lock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the cache lock: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("take the cache lock: %w", err), file.Close())
	}
	return func() { file.Close() }, nil
}
