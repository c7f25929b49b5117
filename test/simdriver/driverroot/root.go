// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package driverroot renders the files by which a node shows an installed NVIDIA driver: libraries and programs below the
// driver root, device nodes, and what the kernel modules add to /proc and /sys.
//
// What should be there is computed from the state of a machine; Apply makes the difference to what was there before. Where the
// real driver leaves something to chance, this is the choice made here:
//
//   - nodes of capabilities exist for every GPU instance and compute instance that a GPU may ever have; the real driver makes
//     them when they are first asked for
//   - the nodes of a GPU go when the GPU is pulled out, and stay when the driver is unloaded
//   - character devices whose major number is not fixed have the numbers of nodes.go
//
// Folders of the running kernel are no roots: nothing can be created in them.
package driverroot

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"gpuslice/pkg/devices/sim"
	"gpuslice/test/simdriver/library"
)

// Paths are the four roots, as the flags --driver-root, --dev-root, --proc-root and --sys-root of a program name them: nodes
// lie in Dev/dev, while Proc and Sys stand for /proc and /sys themselves.
type Paths struct {
	Root, Dev, Proc, Sys string
	// Layout is where below the root the driver's files are; the zero value is Debian's.
	Layout Layout
	// Major is the major number of the nodes of GPUs; 0 is NVIDIA's own. Drivers that are simulated side by side on one machine
	// need numbers of their own, because a process in another mount namespace is known to hold a GPU by the number alone.
	Major int
}

func (p Paths) major() int {
	if p.Major == 0 {
		return majorGPU
	}
	return p.Major
}

// Under puts everything below one folder.
func Under(root string) Paths {
	return Paths{Root: root, Dev: root, Proc: filepath.Join(root, "proc"), Sys: filepath.Join(root, "sys")}
}

// GPU is a GPU with what its files depend on.
type GPU struct {
	sim.GPU
	CanMIG bool
}

// State is what the files depend on.
type State struct {
	Version string // of the installed driver
	Loaded  bool   // the kernel modules are
	BootID  string
	GPUs    []GPU
}

// Root is a rendered root.
type Root struct {
	paths     Paths
	artifacts library.Artifacts
	age       library.Age

	mu      sync.Mutex
	folders map[string]bool // that were made here
	fixed   tree            // follows installations, plugging and renumbering
	live    tree            // follows instances
	key     string          // of what fixed was computed from
}

// New prepares a root; Apply fills it.
func New(p Paths, artifacts library.Artifacts, age library.Age) (*Root, error) {
	for _, root := range []string{p.Proc, p.Sys} {
		if err := notKernel(root); err != nil {
			return nil, err
		}
	}
	return &Root{paths: p, artifacts: artifacts, age: age, folders: map[string]bool{}}, nil
}

// notKernel refuses procfs and sysfs.
func notKernel(root string) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(root, &stat); err != nil {
		return nil // it is not there yet
	}
	if stat.Type == unix.PROC_SUPER_MAGIC || stat.Type == unix.SYSFS_MAGIC {
		return fmt.Errorf("%s belongs to the running kernel: give a folder of your own", root)
	}
	return nil
}

// Paths are the roots.
func (r *Root) Paths() Paths { return r.paths }

// Apply makes the files follow the state.
func (r *Root) Apply(s State) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	if key := s.fixedKey(); key != r.key {
		next := r.fixedTree(s)
		errs = append(errs, r.change(r.fixed, next))
		r.fixed, r.key = next, key
	}
	next := capabilities(r.paths, s)
	errs = append(errs, r.change(r.live, next))
	r.live = next
	return errors.Join(errs...)
}

// fixedKey is equal for states whose fixed parts are equal.
func (s State) fixedKey() string {
	var key strings.Builder
	fmt.Fprint(&key, s.Version, s.Loaded, s.BootID)
	for _, g := range s.GPUs {
		fmt.Fprint(&key, " ", g.Minor, g.UUID, g.BusID, g.NUMA, g.CanMIG)
	}
	return key.String()
}

func (r *Root) fixedTree(s State) tree {
	all := tree{}
	for _, part := range []tree{installation(r.paths, r.artifacts, r.age, s.Version), nodes(r.paths, s), proc(r.paths, s), sys(r.paths, s)} {
		maps.Copy(all, part)
	}
	return all
}
