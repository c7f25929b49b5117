// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"gpuslice/internal/config"
	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/nvml"
	"gpuslice/pkg/devices/sim"
)

// simClient is the name under which a simulated driver knows this process.
const simClient = "gpuslice"

// hardware opens what --hardware names.
func (f *Flags) hardware() (*devices.Hardware, error) {
	spec, isSim := strings.CutPrefix(f.Hardware, "sim:")
	switch {
	case isSim:
		machine, err := sim.Parse(spec)
		if err != nil {
			return nil, fmt.Errorf("--hardware=%s: %w", f.Hardware, err)
		}
		host := machine.Host()
		return devices.New(machine.Open(sim.Admin(simClient)), devices.Options{
			NUMANode: host.NUMANode, SystemMemory: host.SystemMemory, Bound: host.Bound, Load: host.Load, Platforms: host,
			Program: machine.Program(), Holders: machine.HoldersFor(simClient),
		}), nil
	case f.Hardware == "nvml":
		driver := nvml.New(nvml.Options{DriverRoot: f.DriverRoot})
		// Processes are those of our own PID namespace, wherever the driver's part of /proc is mounted.
		holders := devices.NodeHolders{Proc: "/proc", Sys: f.SysRoot, Dev: f.DevRoot}
		host := devices.HostFiles{Proc: f.ProcRoot, Sys: f.SysRoot}
		return devices.New(driver, devices.Options{
			NUMANode: host.NUMANode, SystemMemory: host.SystemMemory, Bound: host.Bound, Load: host.Load,
			Platforms: nvml.Host{DriverRoot: f.DriverRoot, DevRoot: f.DevRoot, ProcRoot: f.ProcRoot, SysRoot: f.SysRoot},
			Program:   nvml.Program{DriverRoot: f.DriverRoot}, Holders: holders,
		}), nil
	default:
		return nil, fmt.Errorf("--hardware=%s is neither nvml nor sim:SPEC", f.Hardware)
	}
}

// loadConfig is the config of a file source; without one every GPU is unmanaged.
func (f *Flags) loadConfig() (config.Sharing, error) {
	name, text, err := f.readConfig()
	if err != nil || f.Config == "" {
		return config.Sharing{}, err
	}
	return config.Admit(name, text)
}

// readConfig reads a file source; without --config there is none and every GPU is unmanaged.
func (f *Flags) readConfig() (name string, text []byte, err error) {
	if f.Config == "" {
		return "no config", nil, nil
	}
	path, isFile := strings.CutPrefix(f.Config, "file:")
	if !isFile {
		return "", nil, fmt.Errorf("--config=%s: this command reads file:PATH", f.Config)
	}
	text, err = os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, fmt.Errorf("--config: there is no file %s", path)
	}
	return path, text, err
}
