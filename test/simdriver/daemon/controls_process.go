// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package daemon

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
)

// startProcess lets a process use a GPU. A process of this machine is in its own PID namespace, and uses the GPU until it
// ends; a number that no process has stands for one on the host.
func (d *Daemon) startProcess(w words) (string, error) {
	number, pid, err := w.twoNumbers()
	if err != nil {
		return "", err
	}
	set, err := w[2:].settings("slot", "ci", "kind", "mib", "namespace")
	if err != nil {
		return "", err
	}
	p, err := d.processFrom(number, pid, set)
	if err != nil {
		return "", err
	}
	if namespace, err := pidNamespace(pid); err == nil && set["namespace"] == "" {
		p.Namespace = namespace
	}
	if err := d.node.Machine.StartProcess(number, p); err != nil {
		return "", err
	}
	d.mu.Lock()
	d.started = append(d.started, started{number: number, Process: p})
	d.mu.Unlock()
	d.stopAtEnd(number, pid)
	return "", nil
}

func (d *Daemon) processFrom(number, pid int, set map[string]string) (sim.Process, error) {
	p := sim.Process{PID: pid, Namespace: set["namespace"], GI: devices.NoInstance, CI: devices.NoInstance}
	mib, err := numberIn(set, "mib", 0)
	if err != nil {
		return p, err
	}
	p.MemoryBytes = uint64(mib) << 20
	if set["kind"] != "" {
		kind, err := words{set["kind"]}.choice(0, "compute", "graphics", "mps")
		if err != nil {
			return p, err
		}
		p.Kind = devices.ProcessKind(kind)
	}
	if set["slot"] == "" {
		return p, nil
	}
	g, err := d.gpu(number)
	if err != nil {
		return p, err
	}
	i, ok := find(g.Instances, func(i sim.Instance) bool { return i.Slot == set["slot"] })
	if !ok {
		return p, fmt.Errorf("GPU %d has no instance %s", number, set["slot"])
	}
	p.GI = i.GI
	p.CI, err = numberIn(set, "ci", 0)
	return p, err
}

func (d *Daemon) stopProcess(w words) (string, error) {
	number, pid, err := w.twoNumbers()
	if err != nil {
		return "", err
	}
	return "", d.stop(number, pid)
}

func (d *Daemon) stop(number, pid int) error {
	d.mu.Lock()
	d.started = slices.DeleteFunc(d.started, func(p started) bool { return p.number == number && p.PID == pid })
	d.mu.Unlock()
	return d.node.Machine.StopProcess(number, pid)
}

// stopAtEnd waits for the end of a process of this machine. The goroutine looks every now and then whether the daemon is
// closed, because nothing else wakes it.
func (d *Daemon) stopAtEnd(number, pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // no process
	}
	d.work.Go(func() error {
		defer unix.Close(fd)
		for !d.isClosed() {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 200)
			if err != nil && !errors.Is(err, unix.EINTR) {
				return fmt.Errorf("wait for process %d: %w", pid, err)
			}
			if n > 0 {
				// The GPU may be gone by now, which ends the use as well.
				_ = d.stop(number, pid)
				return nil
			}
		}
		return nil
	})
}

func (d *Daemon) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}
