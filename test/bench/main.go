// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

// Command bench plays the kubelet towards a device plugin on a node with a simulated NVIDIA driver and measures what the budgets
// are about. It prints its conditions and a table, and exits with 1 when a median misses its budget, unless
// BENCH_REPORT_ONLY=1, or when the plugin breaks the protocol.
//
//	go run ./test/bench [FLAGS] [COMMAND ARG...]
//
// Without COMMAND it is our own plugin. In COMMAND and its arguments {kubelet-dir}, {driver-root}, {dev-root}, {proc-root},
// {sys-root}, {cdi-dir}, {state-dir} and {config} stand for the folders and the file of each run. A plugin with configs of its own
// kind gets them by -configs: a folder with files of the names in testdata; rows without their files are left out. A plugin whose
// folders cannot be told needs a mount namespace around it:
//
//	go run ./test/bench -configs DIR unshare -m sh -c 'mount --bind {kubelet-dir} /var/lib/kubelet && exec PLUGIN'
//
// Inside "go run ./test/cluster exec --" it takes the rows that need an API server, and only those.
//
// It runs as root, because it makes device nodes, and needs what simdriver needs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	clusternode "gpuslice/test/cluster/node"
	"gpuslice/test/simdriver/library"
)

var errMisses = errors.New("budgets are missed")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if errors.Is(err, errMisses) && os.Getenv("BENCH_REPORT_ONLY") == "1" {
		err = nil
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	b, dirs, err := parse(args)
	if err != nil {
		return err
	}
	at, refused, err := folder(dirs...)
	if err != nil {
		return err
	}
	if refused != "" {
		fmt.Fprintln(out, refused)
	}
	b.at = at
	if b.short, err = os.MkdirTemp("", "b"); err != nil {
		return errors.Join(err, os.RemoveAll(at.dir))
	}
	// All at the end: what is removed between two lives slows down the making of files in the next one.
	defer func() { err = errors.Join(err, os.RemoveAll(at.dir), os.RemoveAll(b.short)) }()
	if b.artifacts, err = library.Build(ctx, filepath.Join(at.dir, "driver")); err != nil {
		return fmt.Errorf("build simulated driver: %w", err)
	}
	b.conditions(out)
	if err := settle(ctx, at.dir, b.short); err != nil {
		return err
	}
	measure := b.measure
	if c := (cluster{os.Getenv("KUBECONFIG"), os.Getenv(clusternode.EnvNodeName)}); c.kubeconfig != "" {
		measure = func(ctx context.Context) ([]condition, error) { return b.measureCluster(ctx, c) }
	}
	measured, err := measure(ctx)
	misses, writing := write(out, rows, measured)
	fmt.Fprintf(out, "\n%q: above the budget, which is for a driver that answers at once. Load at the end: %s\n", driver, load())
	if err = errors.Join(err, writing); err == nil && misses > 0 {
		err = fmt.Errorf("%w: %d", errMisses, misses)
	}
	return err
}

// parse reads the command line; dirs are where to measure, best first.
func parse(args []string) (b *bench, dirs []string, err error) {
	b = &bench{latencies: []time.Duration{0, time.Millisecond}}
	set := flag.NewFlagSet("bench", flag.ContinueOnError)
	dir := set.String("dir", os.TempDir(), "folder to work in; another is chosen when it is in memory")
	configs := set.String("configs", "test/bench/testdata", "folder of the plugin's configs")
	set.IntVar(&b.repeat, "repeat", 5, "how often each row is measured")
	set.IntVar(&b.calls, "calls", 2000, "how many calls a median is of")
	set.DurationVar(&b.idle, "idle", 10*time.Second, "how long the plugin is left alone")
	if err := set.Parse(args); err != nil {
		return nil, nil, err
	}
	if b.repeat < 1 || b.calls < 1 || b.idle <= 0 {
		return nil, nil, errors.New("-repeat, -calls and -idle must be above 0")
	}
	if b.template = set.Args(); len(b.template) == 0 {
		b.template = ours
	}
	if err := checkTemplate(b.template); err != nil {
		return nil, nil, err
	}
	if b.configs, err = readConfigs(*configs); err != nil {
		return nil, nil, err
	}
	return b, []string{*dir, "/var/tmp", "."}, nil
}

// whole is the name of the config that every plugin needs.
const whole = "whole"

func readConfigs(dir string) (map[string][]byte, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	configs := map[string][]byte{}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		if configs[name], err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	if configs[whole] == nil {
		return nil, fmt.Errorf("-configs: %s has no %s.yaml", dir, whole)
	}
	return configs, nil
}

// conditions prints what the figures depend on.
func (b *bench) conditions(out io.Writer) {
	fmt.Fprintf(out, "plugin:       %s\n", strings.Join(b.template, " "))
	fmt.Fprintf(out, "cores:        %d, load %s\n", runtime.NumCPU(), load())
	fmt.Fprintf(out, "state folder: %s\n", b.at)
	fmt.Fprintf(out, "node:         simulated %s (%s for 16 GPUs), driver latency %v; each row %d times, medians of %d calls\n\n",
		eight, sixteen, b.latencies, b.repeat, b.calls)
}

// load is the machine's over the last 1, 5 and 15 minutes.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	fields := strings.Fields(string(text))
	return strings.Join(fields[:min(3, len(fields))], " ")
}
