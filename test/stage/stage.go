// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Package stage is a real Kubernetes node with a simulated NVIDIA driver and our unmodified agent on it, for stories that a
// demo or a test tells. It works inside "go run ./test/cluster exec --" only.
package stage

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"gpuslice/test/cluster/image"
	"gpuslice/test/cluster/node"
	"gpuslice/test/simdriver/daemon"
	"gpuslice/test/simdriver/driverroot"
	"gpuslice/test/simdriver/library"
)

// Places inside the cluster's own file systems.
const (
	driverRoot = "/run/nvidia/driver"
	stateDir   = "/var/lib/gpuslice"
	// Image is a workload image in which the driver's library can be loaded and asked.
	Image = "gpuslice.test/gpu:1"
	// Namespace is where config and workloads are.
	Namespace = "gpuslice"
	// ConfigMap is the name of the config.
	ConfigMap = "gpuslice-config"
)

// Stage is a node that is ready for stories.
type Stage struct {
	*node.Node
	Driver *daemon.Daemon
	paths  driverroot.Paths // where the driver is rendered
	root   string           // where the agent finds it
	undo   []func() error
	agent  *Agent
	bin    string // where our binaries are
	logs   string
	mounts []string
}

// Options of a Stage.
type Options struct {
	Machine   string // simulated hardware, "2xh100-sxm5-80gb"
	Binaries  string // folder with gpu-plugin
	Artifacts string // folder for what the simulated driver is built into; kept between runs
	Logs      string // folder for the agent's log
	Place     Place  // of the driver; the zero value is a driver container
}

// Place is where the driver is installed on the node.
type Place struct {
	Root   string // as --driver-root names it; default driverRoot
	Dev    string // as --dev-root names it; default the same
	Layout driverroot.Layout
}

// paths are where the driver is rendered. A driver of the host itself is rendered elsewhere and put over the host's files. What
// the kernel shows cannot be simulated at its own place.
func (p Place) paths() driverroot.Paths {
	paths := driverroot.Under(driverRoot)
	paths.Layout = p.Layout
	if p.Root != "" && p.Root != "/" {
		paths.Root, paths.Dev = p.Root, p.Root
	}
	paths.Dev = cmp.Or(p.Dev, paths.Dev)
	return paths
}

// New starts the simulated driver and loads the workload image. Close ends what was started.
func New(ctx context.Context, o Options) (*Stage, error) {
	n, err := node.Attach()
	if err != nil {
		return nil, err
	}
	artifacts, err := built(ctx, o.Artifacts)
	if err != nil {
		return nil, err
	}
	hardware, err := daemon.Load(o.Machine)
	if err != nil {
		return nil, err
	}
	s := &Stage{Node: n, paths: o.Place.paths(), root: cmp.Or(o.Place.Root, driverRoot), bin: o.Binaries, logs: o.Logs}
	if err := os.MkdirAll(o.Logs, 0o755); err != nil {
		return nil, err
	}
	if s.Driver, err = daemon.Start(daemon.Options{Node: hardware, Paths: s.paths, Artifacts: artifacts}); err != nil {
		return nil, fmt.Errorf("start simulated driver: %w", err)
	}
	if err := s.install(); err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	if err := s.prepare(ctx, artifacts); err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	return s, nil
}

// install puts a driver of the host itself over the host's files, and arranges for the nodes to go.
func (s *Stage) install() error {
	if s.paths.Dev == "/" {
		s.undo = append(s.undo, func() error {
			nodes, err := filepath.Glob("/dev/nvidia*")
			for _, node := range nodes {
				err = errors.Join(err, os.RemoveAll(node))
			}
			return err
		})
	}
	if s.root != "/" {
		return nil
	}
	undo, err := s.paths.OntoHost()
	s.undo = append(s.undo, undo)
	return err
}

// built compiles the simulated driver unless an earlier run of the very same program has.
func built(ctx context.Context, dir string) (library.Artifacts, error) {
	self, err := os.Executable()
	if err != nil {
		return library.Artifacts{}, err
	}
	program, err := os.ReadFile(self)
	if err != nil {
		return library.Artifacts{}, err
	}
	dir = filepath.Join(dir, fmt.Sprintf("%x", sha256.Sum256(program))[:12])
	done := filepath.Join(dir, "complete")
	if _, err := os.Stat(done); err == nil {
		return library.In(dir), nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return library.Artifacts{}, err
	}
	a, err := library.Build(ctx, dir)
	if err != nil {
		return a, fmt.Errorf("build simulated driver: %w", err)
	}
	return a, os.WriteFile(done, nil, 0o600)
}

func (s *Stage) prepare(ctx context.Context, artifacts library.Artifacts) error {
	files, err := artifacts.ImageFiles()
	if err != nil {
		return fmt.Errorf("collect files of the workload image: %w", err)
	}
	img, err := image.Busybox(Image, files...)
	if err != nil {
		return err
	}
	if err := s.ImportImage(ctx, img); err != nil {
		return fmt.Errorf("load workload image: %w", err)
	}
	return s.createNamespace(ctx)
}

// MountDriverAt makes the driver's files appear at another root, as an installer would.
func (s *Stage) MountDriverAt(root string) error {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(s.paths.Root, root, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount the driver at %s: %w", root, err)
	}
	s.mounts = append(s.mounts, root)
	return nil
}

// Close ends agent and driver.
func (s *Stage) Close(ctx context.Context) error {
	errs := []error{s.StopAgent(ctx), s.Driver.Close()}
	for _, undo := range s.undo {
		errs = append(errs, undo())
	}
	for _, m := range s.mounts {
		errs = append(errs, unix.Unmount(m, unix.MNT_DETACH))
	}
	return errors.Join(errs...)
}

// DriverRoot is where the driver's files are on the node.
func (s *Stage) DriverRoot() string { return s.paths.Root }
