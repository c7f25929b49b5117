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
		if err := ensure(ctx, module, version, dir, module.cacheDir(cache, version), progress); err != nil {
			return nil, err
		}
		for _, program := range module.Names() {
			paths[program] = filepath.Join(module.cacheDir(cache, version), program)
		}
	}
	return paths, nil
}

// ensure builds the programs of a module that the folder lacks.
func ensure(ctx context.Context, m Module, version, dir, folder string, progress io.Writer) error {
	var missing []string
	for _, program := range m.Names() {
		if _, err := os.Stat(filepath.Join(folder, program)); errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, program)
		} else if err != nil {
			return fmt.Errorf("look for %s: %w", program, err)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	start, names := time.Now(), strings.Join(missing, ", ")
	fmt.Fprintf(progress, "%s %s: building, which may take minutes\n", names, version)
	if err := build(ctx, m, missing, version, dir, folder); err != nil {
		return err
	}
	fmt.Fprintf(progress, "%s %s: built in %.1f s\n", names, version, time.Since(start).Seconds())
	return nil
}

// build writes to a temporary folder first, so that the cache never holds half a program.
func build(ctx context.Context, m Module, programs []string, version, dir, folder string) error {
	names := strings.Join(programs, ", ")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("create the folder of %s: %w", names, err)
	}
	temporary, err := os.MkdirTemp(folder, ".build-")
	if err != nil {
		return fmt.Errorf("create the build folder of %s: %w", names, err)
	}
	defer os.RemoveAll(temporary)
	command := exec.CommandContext(ctx, "go", m.buildArgs(programs, version, temporary)...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if m.Cgo {
		command.Env = append(command.Env, "CGO_ENABLED=1")
	}
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s %s: %w\n%s", names, version, err, strings.TrimSpace(string(output)))
	}
	for _, program := range programs {
		if err := os.Rename(filepath.Join(temporary, program), filepath.Join(folder, program)); err != nil {
			return fmt.Errorf("keep %s: %w", program, err)
		}
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
