// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package nvml

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gpuslice/pkg/devices"
)

// The names under which applications load the driver's two libraries that none can do without.
const (
	libraryName = "libnvidia-ml.so.1"
	cudaName    = "libcuda.so.1"
)

// libraryDirs are where distributions and driver containers put the driver's libraries, in the order they are tried. Whoever
// looks for a library looks here: the session, the common edits and the print.
var libraryDirs = []string{
	"usr/lib64",
	"usr/lib/x86_64-linux-gnu",
	"usr/lib/aarch64-linux-gnu",
	"usr/lib/x86_64-linux-gnu/nvidia/current",
	"usr/lib/aarch64-linux-gnu/nvidia/current",
	"lib64", // GKE's installer puts its own right below the root
	"lib/x86_64-linux-gnu",
	"lib/aarch64-linux-gnu",
}

// find returns where a library really lies below the root, or the paths that were tried.
func find(root, name string) (path string, tried []string) {
	for _, dir := range libraryDirs {
		path, err := within(root, filepath.Join(dir, name))
		if err == nil {
			return path, nil
		}
		tried = append(tried, filepath.Join(root, dir, name))
	}
	return "", tried
}

// findLibrary returns the library's path under the driver root, or its bare name for the loader.
func findLibrary(root string) string {
	if path, _ := find(root, libraryName); path != "" {
		return path
	}
	return libraryName
}

// notFound says where a library was looked for; alsoLoader that the loader was asked too.
func notFound(root, name string, alsoLoader bool) error {
	_, tried := find(root, name)
	where := strings.Join(tried, ", ")
	if alsoLoader {
		where += ", and the path of the loader"
	}
	return fmt.Errorf("%s is not installed: tried %s; --driver-root=%s says where the driver is: %w", name, where, root, devices.ErrLibraryNotFound)
}

// installed is the version of the driver's files, from the names of the two libraries that all others come with. While an
// installation goes on, one of them is not there, or they do not agree. "" where their names have none.
func installed(root string) (version string, err error) {
	versions := [2]string{}
	for i, name := range []string{libraryName, cudaName} {
		path, _ := find(root, name)
		if path == "" {
			return "", notFound(root, name, false)
		}
		base, _, _ := strings.Cut(name, ".so")
		versions[i] = strings.TrimPrefix(strings.TrimPrefix(filepath.Base(path), base+".so"), ".")
	}
	if versions[0] != versions[1] && strings.Contains(versions[0]+versions[1], ".") {
		return "", fmt.Errorf("the driver under %s is half installed: %s is of version %s, %s of %s", root, libraryName, versions[0], cudaName, versions[1])
	}
	if !strings.Contains(versions[0], ".") {
		return "", nil
	}
	return versions[0], nil
}

// maxLinks bounds how many links one path may lead through, as the kernel does.
const maxLinks = 40

// within returns where a path of the driver root really lies. Links mean what they mean to a process whose root it is: one that
// is absolute, as driver containers have, never leads out of it.
func within(root, path string) (string, error) {
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		return "", err
	}
	return inRoot(root, path)
}

// inRoot is within for a root that is no link.
func inRoot(root, path string) (string, error) {
	at, rest, links := "/", strings.Split(path, "/"), 0
	for len(rest) > 0 {
		next := filepath.Join(at, rest[0]) // ".." of the root is the root
		rest = rest[1:]
		info, err := os.Lstat(filepath.Join(root, next))
		if err != nil {
			return "", err
		}
		if info.Mode()&os.ModeSymlink == 0 {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%s: too many links", filepath.Join(root, path))
		}
		target, err := os.Readlink(filepath.Join(root, next))
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return filepath.Join(root, at), nil
}
