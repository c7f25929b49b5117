// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Command simdriver is a simulated NVIDIA driver for tests: a daemon, the files of an installed driver, and controls.
//
//	simdriver daemon --root DIR --machine 8xh100-sxm5-80gb    serve until interrupted
//	simdriver render --root DIR --machine SPEC                write the files and end
//	simdriver build  --artifacts DIR                          compile what daemon and render install
//	simdriver ls     --root DIR                               print what NVML shows there
//	simdriver ctl    --root DIR CONTROL WORDS...              make things happen; "ctl help" lists them
//
// Without --artifacts everything is compiled anew, which needs gcc, go, and this module as the working directory.
//
// A program under test gets --driver-root=DIR --dev-root=DIR --proc-root=DIR/proc --sys-root=DIR/sys. On a node with pods the
// driver root is best a folder such as /run/nvidia/driver with --dev-root=/, and the daemon must run in the PID namespace that
// the kubelet calls the host's. /proc and /sys of the running kernel cannot be rendered into.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"gpuslice/test/simdriver/daemon"
	"gpuslice/test/simdriver/driverroot"
	"gpuslice/test/simdriver/library"
)

// settings is the command line.
type settings struct {
	paths     driverroot.Paths
	machine   string
	age       string
	artifacts string
	control   string
	words     []string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "simdriver:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	commands := map[string]func(context.Context, settings, io.Writer) error{
		"daemon": serve, "render": render, "build": build, "ls": list, "ctl": ctl,
	}
	if len(args) == 0 || commands[args[0]] == nil {
		return errors.New("usage: simdriver daemon|render|build|ls|ctl [FLAGS]")
	}
	s, err := parse(args[0], args[1:])
	if err != nil {
		return err
	}
	return commands[args[0]](ctx, s, out)
}

func parse(command string, args []string) (settings, error) {
	var s settings
	set := flag.NewFlagSet("simdriver "+command, flag.ContinueOnError)
	set.StringVar(&s.paths.Root, "root", "/", "driver root")
	set.StringVar(&s.paths.Dev, "dev-root", "", "folder of dev/ (default: root)")
	set.StringVar(&s.paths.Proc, "proc-root", "", "what stands for /proc (default: root/proc)")
	set.StringVar(&s.paths.Sys, "sys-root", "", "what stands for /sys (default: root/sys)")
	set.StringVar(&s.machine, "machine", "1xh100-sxm5-80gb", "COUNTxMODEL,... or @machine.yaml")
	set.StringVar(&s.age, "library", string(library.New), "new, or old for the library of a driver before MIG")
	set.StringVar(&s.artifacts, "artifacts", "", "folder that build filled (default: compile anew)")
	set.StringVar(&s.control, "control", "", "control socket (default: root/run/simdriver/control)")
	if err := set.Parse(args); err != nil {
		return s, err
	}
	if s.age != string(library.New) && s.age != string(library.Old) {
		return s, fmt.Errorf("--library=%s is neither new nor old", s.age)
	}
	root, err := filepath.Abs(s.paths.Root)
	if err != nil {
		return s, err
	}
	under := driverroot.Under(root)
	s.paths = driverroot.Paths{
		Root: root, Dev: cmp.Or(s.paths.Dev, under.Dev), Proc: cmp.Or(s.paths.Proc, under.Proc), Sys: cmp.Or(s.paths.Sys, under.Sys),
	}
	s.control = cmp.Or(s.control, filepath.Join(root, "run/simdriver/control"))
	s.words = set.Args()
	return s, nil
}

// built compiles what is not there, and says how to be rid of it.
func (s settings) built(ctx context.Context) (a library.Artifacts, remove func() error, err error) {
	if s.artifacts != "" {
		return library.In(s.artifacts), func() error { return nil }, nil
	}
	dir, err := os.MkdirTemp("", "simdriver-")
	if err != nil {
		return a, nil, err
	}
	remove = func() error { return os.RemoveAll(dir) }
	if a, err = library.Build(ctx, dir); err != nil {
		return a, nil, errors.Join(err, remove())
	}
	return a, remove, nil
}

func build(ctx context.Context, s settings, _ io.Writer) error {
	if s.artifacts == "" {
		return errors.New("build: --artifacts is missing")
	}
	_, err := library.Build(ctx, s.artifacts)
	return err
}

// start renders and serves.
func (s settings) start(ctx context.Context) (d *daemon.Daemon, remove func() error, err error) {
	node, err := daemon.Load(s.machine)
	if err != nil {
		return nil, nil, err
	}
	artifacts, remove, err := s.built(ctx)
	if err != nil {
		return nil, nil, err
	}
	d, err = daemon.Start(daemon.Options{
		Node: node, Paths: s.paths, Artifacts: artifacts, Age: library.Age(s.age), ControlSocket: s.control,
	})
	if err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	return d, remove, nil
}

func serve(ctx context.Context, s settings, out io.Writer) error {
	d, remove, err := s.start(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "ready: %s\n", s.paths.Root)
	<-ctx.Done()
	return errors.Join(d.Close(), remove())
}

// render starts and stops: what stays are the files.
func render(ctx context.Context, s settings, _ io.Writer) error {
	d, remove, err := s.start(ctx)
	if err != nil {
		return err
	}
	return errors.Join(d.Close(), remove())
}

func list(ctx context.Context, s settings, out io.Writer) error {
	artifacts, remove, err := s.built(ctx)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, artifacts.List(), s.paths.NVML())
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	return errors.Join(cmd.Run(), remove())
}

func ctl(_ context.Context, s settings, out io.Writer) error {
	if len(s.words) == 1 && s.words[0] == "help" {
		fmt.Fprint(out, daemon.Usage())
		return nil
	}
	output, err := daemon.Control(s.control, s.words...)
	fmt.Fprint(out, output)
	return err
}
