// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package main

import (
	"fmt"
	"path/filepath"
	"reflect"
	"time"

	"gpuslice/pkg/devices"
	"gpuslice/test/simdriver/daemon"
	"gpuslice/test/simdriver/driverroot"
	"gpuslice/test/simdriver/library"
)

// node is simulated hardware with its driver.
type node struct {
	dir    string
	short  string // for sockets
	driver *daemon.Daemon
	paths  driverroot.Paths
}

// newNode starts a driver every call of which takes latency longer.
func newNode(dir, machine string, latency time.Duration, artifacts library.Artifacts) (*node, error) {
	hardware, err := daemon.Load(machine)
	if err != nil {
		return nil, err
	}
	for _, call := range append(methods[devices.Driver](), methods[devices.EventSet]()...) {
		if err := hardware.Machine.SetLatency(call, latency); err != nil {
			return nil, err
		}
	}
	n := &node{dir: dir, paths: driverroot.Under(filepath.Join(dir, "root"))}
	if n.driver, err = daemon.Start(daemon.Options{Node: hardware, Paths: n.paths, Artifacts: artifacts}); err != nil {
		return nil, fmt.Errorf("start simulated driver: %w", err)
	}
	return n, nil
}

func methods[T any]() []string {
	names := []string{}
	for m := range reflect.TypeFor[T]().Methods() {
		names = append(names, m.Name)
	}
	return names
}

// calls counts what a process has asked of the driver.
func (n *node) calls(pid int) int {
	sum := 0
	for _, count := range n.driver.Calls(pid) {
		sum += count
	}
	return sum
}
