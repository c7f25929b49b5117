// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package main

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gpuslice/test/cluster/node"
)

// footprint is what a process takes of a machine.
type footprint struct {
	memoryKiB int // RssAnon
	files     int
	threads   int
}

// How much a settled agent may grow over its life: memory by what a garbage collector leaves standing, files and threads by what
// a few more streams and calls take.
const (
	maxMemoryKiB = 16 << 10
	maxFiles     = 24
	maxThreads   = 24
)

// settle takes the pods away and wants the node to be what its config says, with nothing left behind.
func (l *life) settle(ctx context.Context, number int) error {
	if err := l.DeletePods(ctx); err != nil {
		return err
	}
	err := node.Until(ctx, limit, "allocatable is what the config says", func(ctx context.Context) error {
		got, err := l.Allocatable(ctx)
		if err == nil && !maps.Equal(got, configs[l.config].offers) {
			err = fmt.Errorf("%v, want %v", got, configs[l.config].offers)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := node.Until(ctx, limit, "nothing left behind", func(context.Context) error { return l.clean() }); err != nil {
		return err
	}
	now, err := l.footprint()
	if err != nil {
		return err
	}
	if number == 0 {
		l.first = now
	}
	fmt.Printf("round %-3d config %d, %d pods so far, agent: %d KiB, %d files, %d threads\n", number, l.config, l.pods, now.memoryKiB, now.files, now.threads)
	if now.memoryKiB > l.first.memoryKiB+maxMemoryKiB || now.files > l.first.files+maxFiles || now.threads > l.first.threads+maxThreads {
		return fmt.Errorf("the agent has grown from %+v to %+v", l.first, now)
	}
	return nil
}

// clean wants no socket that nobody serves, no file of a claim, no instance without compute instance, and a spare GPU that is as it
// was.
func (l *life) clean() error {
	sockets, err := filepath.Glob(filepath.Join(node.DevicePluginDir, "gpuslice-*.sock"))
	if err != nil {
		return err
	}
	for _, path := range sockets {
		conn, err := net.Dial("unix", path)
		if err != nil {
			return fmt.Errorf("socket that nobody serves: %w", err)
		}
		_ = conn.Close() // nothing was asked
	}
	for _, g := range l.Driver.Machine().GPUs() {
		if g.Number == spare && (!g.MIG || len(g.Instances) > 0) {
			return fmt.Errorf("the GPU that no rule is for: mig=%t, instances %v", g.MIG, g.Instances)
		}
		for _, i := range g.Instances {
			if i.CI < 0 {
				return fmt.Errorf("gpu-%d: instance %s has no compute instance", g.Minor, i.Slot)
			}
		}
	}
	for pattern, most := range map[string]int{
		filepath.Join(node.CDIDir, "*"):               1,
		filepath.Join(node.CDIDir, ".*"):              0,
		"/var/lib/gpuslice/claims/*":                  0,
		"/var/lib/gpuslice/.*":                        0,
		filepath.Join(node.DevicePluginDir, ".*.tmp"): 0,
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return fmt.Errorf("look for what is left behind: %w", err)
		}
		if len(found) > most {
			return fmt.Errorf("left behind: %v", found)
		}
	}
	return nil
}

// footprint reads /proc.
func (l *life) footprint() (footprint, error) {
	pid := l.PID()
	if l.swell != nil {
		pid = l.swell.pid()
	}
	f := footprint{}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return f, err
	}
	for line := range strings.Lines(string(status)) {
		key, rest, _ := strings.Cut(line, ":")
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			continue
		}
		switch n, err := strconv.Atoi(fields[0]); {
		case err != nil:
		case key == "RssAnon":
			f.memoryKiB = n
		case key == "Threads":
			f.threads = n
		}
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	f.files = len(files)
	return f, err
}
