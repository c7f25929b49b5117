// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package daemon

import (
	"fmt"
	"strconv"
	"strings"

	"gpuslice/pkg/devices"
	"gpuslice/test/simdriver/abi"
)

var memoryCalls = map[string]handler{
	"nvmlDeviceGetMemoryInfo":      memoryInfo,
	"nvmlDeviceGetMemoryInfo_v2":   memoryInfoV2,
	"nvmlDeviceGetMemoryLimits_v1": memoryLimits,
	"nvmlDeviceSetMemoryLimits_v1": setMemoryLimits,
}

// memory is the total, what the driver keeps of it, and what the processes take that were started on the machine.
func (r *request) memory() (total, reserved, used uint64, err error) {
	d, h, at, err := r.onDevice()
	if err != nil {
		return 0, 0, 0, err
	}
	if total, err = d.Memory(h); err != nil {
		return 0, 0, 0, err
	}
	if !at.mig {
		if reserved, err = d.ReservedMemory(h); err != nil {
			return 0, 0, 0, err
		}
	}
	return total, reserved, min(r.daemon.used(at), total), nil
}

// memoryInfo is the older call, which counts what the driver keeps as free.
func memoryInfo(r *request) error {
	total, _, used, err := r.memory()
	if err != nil {
		return err
	}
	r.put(abi.Memory{Total: total, Free: total - used, Used: used})
	return nil
}

func memoryInfoV2(r *request) error {
	total, reserved, used, err := r.memory()
	if err != nil {
		return err
	}
	reserved = min(reserved, total-used)
	m := abi.MemoryV2{Version: r.in.Uint32(), Total: total, Reserved: reserved, Free: total - used - reserved, Used: used}
	if m.Version != abi.Version(m, 2) {
		return devices.Code(abi.VersionMismatch)
	}
	r.put(m)
	return nil
}

// The folder of a cgroup has one name for the daemon and its callers.

func memoryLimits(r *request) error {
	d, h, _, err := r.onDevice()
	if err != nil {
		return err
	}
	l, err := d.MemoryLimits(h, r.in.Text())
	r.putUint64(l.Soft)
	r.putUint64(l.Hard)
	r.putUint64(l.Used)
	return err
}

func setMemoryLimits(r *request) error {
	d, h, _, err := r.onDevice()
	if err != nil {
		return err
	}
	cgroup, soft, hard := r.in.Text(), r.in.Uint64(), r.in.Uint64()
	if err := r.in.Err(); err != nil {
		return devices.ErrInvalidArgument
	}
	return d.SetMemoryLimits(h, cgroup, soft, hard)
}

// listMemoryLimits prints one line per cgroup: its folder, soft and hard limit.
func (d *Daemon) listMemoryLimits(w words) (string, error) {
	n, err := w.number(0)
	if err != nil {
		return "", err
	}
	limits, err := d.node.Machine.MemoryLimits(n)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, l := range limits {
		fmt.Fprintf(&b, "%s soft=%d hard=%d\n", l.Cgroup, l.Soft, l.Hard)
	}
	return b.String(), nil
}

// controlMemoryLimit is what somebody else does.
func (d *Daemon) controlMemoryLimit(w words) (string, error) {
	n, err := w.number(0)
	if err != nil {
		return "", err
	}
	hard := devices.NoMemoryLimit
	if w[2] != "none" {
		if hard, err = strconv.ParseUint(w[2], 10, 64); err != nil {
			return "", fmt.Errorf("%q is neither a number of bytes nor none", w[2])
		}
	}
	return "", d.node.Machine.SetMemoryLimit(n, w[1], hard)
}
