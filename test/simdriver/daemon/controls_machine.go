// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package daemon

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
)

// fail injects a fault and answers its name, which heal takes.
func (d *Daemon) fail(w words) (string, error) {
	set, err := w.settings("call", "client", "gpus", "nth", "code", "form")
	if err != nil {
		return "", err
	}
	f := sim.Fault{Call: set["call"], Client: set["client"]}
	if f.Nth, err = numberIn(set, "nth", 0); err != nil {
		return "", err
	}
	if set["code"] != "" {
		if f.Code, err = devices.ParseCode(set["code"]); err != nil {
			return "", err
		}
	}
	if set["form"] != "" {
		if f.Form, err = sim.ParseForm(set["form"]); err != nil {
			return "", err
		}
	}
	for word := range strings.FieldsFuncSeq(set["gpus"], func(c rune) bool { return c == ',' }) {
		n, err := words{word}.number(0)
		if err != nil {
			return "", err
		}
		f.GPUs = append(f.GPUs, n)
	}
	release, err := d.node.Machine.Fail(f)
	if err != nil {
		return "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	id := 1
	for d.faults[id] != nil {
		id++
	}
	d.faults[id] = release
	return fmt.Sprintln(id), nil
}

func (d *Daemon) heal(w words) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w[0] == "all" {
		for _, release := range d.faults {
			release()
		}
		clear(d.faults)
		return "", nil
	}
	id, err := w.number(0)
	if err != nil {
		return "", err
	}
	release, ok := d.faults[id]
	if !ok {
		return "", fmt.Errorf("no fault %d; there are %v", id, slices.Sorted(maps.Keys(d.faults)))
	}
	release()
	delete(d.faults, id)
	return "", nil
}

func (d *Daemon) latency(w words) (string, error) {
	duration, err := time.ParseDuration(w[1])
	if err != nil {
		return "", err
	}
	return "", d.node.Machine.SetLatency(w[0], duration)
}

// addGPU answers the number of the new GPU.
func (d *Daemon) addGPU(w words) (string, error) {
	number, err := d.node.plug(w[0], strings.Join(w[1:], ""))
	if err != nil {
		return "", err
	}
	return fmt.Sprintln(number), nil
}

func (d *Daemon) returnGPU(w words) (string, error) {
	n, err := w.number(0)
	if err != nil {
		return "", err
	}
	return "", d.node.Machine.ReturnGPU(n, strings.Join(w[1:], ""))
}

func (d *Daemon) reboot(words) (string, error) {
	d.node.Machine.Reboot()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.loaded, d.started = true, nil
	return "", nil
}

func (d *Daemon) unload(words) (string, error) {
	if err := d.node.Machine.UnloadDriver(); err != nil {
		return "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.loaded = false
	return "", nil
}

// load installs the files of the version, too.
func (d *Daemon) load(w words) (string, error) {
	version := strings.Join(w, "")
	d.node.Machine.LoadDriver(version)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.loaded = true
	if version != "" {
		d.installed = version
	}
	return "", nil
}

func (d *Daemon) mismatch(words) (string, error) {
	d.node.Machine.MismatchDriver()
	return "", nil
}
