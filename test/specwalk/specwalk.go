// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package specwalk judges published CDI specs: whatever a spec names on the host must be there. It reads the files as a runtime
// does, and knows nothing of who wrote them.
package specwalk

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/specs-go"
)

// lazy begins the names of nodes that the driver makes when they are first asked for; a runtime makes them by their numbers.
const lazy = "/dev/nvidia-caps/"

// hostFlags are the arguments of hooks that name something on the host; other paths are those of the container.
var hostFlags = []string{"--socket=", "--ldconfig-path=", "--driver-root="}

// Directory walks every spec of a directory that the CDI library reads, and returns everything that is wrong. A directory
// without a spec is wrong too.
func Directory(dir string) error {
	cache, err := cdi.NewCache(cdi.WithSpecDirs(dir), cdi.WithAutoRefresh(false))
	if err != nil {
		return err
	}
	errs := []error{cache.Refresh()}
	walked := 0
	for _, vendor := range cache.ListVendors() {
		for _, spec := range cache.GetVendorSpecs(vendor) {
			walked++
			if err := Spec(spec.Spec); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", filepath.Base(spec.GetPath()), err))
			}
		}
	}
	if walked == 0 {
		errs = append(errs, fmt.Errorf("%s has no spec", dir))
	}
	return errors.Join(errs...)
}

// File walks one file. One that is not whole is an error of its own.
func File(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return Text(text)
}

// ErrPartial is wrapped when a file is not a whole spec.
var ErrPartial = errors.New("not a whole spec")

// Text walks the content of a file.
func Text(text []byte) error {
	var spec specs.Spec
	if err := json.Unmarshal(text, &spec); err != nil {
		return fmt.Errorf("%w: %w", ErrPartial, err)
	}
	return Spec(&spec)
}

// Spec walks a spec.
func Spec(spec *specs.Spec) error {
	if len(spec.Devices) == 0 {
		return fmt.Errorf("%w: no device", ErrPartial)
	}
	errs := []error{edits(spec.ContainerEdits)}
	for _, d := range spec.Devices {
		errs = append(errs, edits(d.ContainerEdits))
	}
	return errors.Join(errs...)
}

func edits(e specs.ContainerEdits) error {
	errs := []error{}
	for _, m := range e.Mounts {
		errs = append(errs, exists("mount of "+m.ContainerPath, m.HostPath))
	}
	for _, n := range e.DeviceNodes {
		errs = append(errs, node(n))
	}
	for _, h := range e.Hooks {
		errs = append(errs, exists("hook "+h.HookName, h.Path))
		for _, arg := range h.Args {
			for _, flag := range hostFlags {
				if path, ok := strings.CutPrefix(arg, flag); ok {
					errs = append(errs, exists("argument of hook "+h.HookName, strings.TrimPrefix(path, "@")))
				}
			}
		}
	}
	return errors.Join(errs...)
}

func exists(what, path string) error {
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func node(n *specs.DeviceNode) error {
	if strings.HasPrefix(n.Path, lazy) {
		return nil
	}
	path := n.HostPath
	if path == "" {
		path = n.Path
	}
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return fmt.Errorf("node %s: %s: %w", n.Path, path, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFCHR || int64(unix.Major(stat.Rdev)) != n.Major || int64(unix.Minor(stat.Rdev)) != n.Minor {
		return fmt.Errorf("node %s: %s is not the character device %d:%d", n.Path, path, n.Major, n.Minor)
	}
	return nil
}
