// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"gpuslice/internal/agent"
	"gpuslice/internal/cgroup"
	"gpuslice/internal/limits/hook"
	"gpuslice/pkg/cdi"
)

// placeHook copies a program to where the host's runtime finds it: specs that name it outlive this process, so an old version
// stays under its own name.
func (f *Flags) placeHook(from, name string) (string, error) {
	program, err := os.Open(from)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	defer program.Close()
	dir := filepath.Join(f.KubeletDir, "plugins/gpu.nvidia.com/hooks", Version)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("place %s: %w", name, err)
	}
	path := filepath.Join(dir, name)
	tmp, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return "", fmt.Errorf("place %s: %w", name, err)
	}
	// Copied piece by piece: what was once read whole would stay in the memory of an agent that runs for months.
	_, err = io.Copy(tmp, program)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return "", fmt.Errorf("place %s: %w", name, err)
	}
	return path, nil
}

// limitHook is the hook of containers whose memory is bounded, or why there is none. Without it everything else works.
func (f *Flags) limitHook() (h cdi.Hook, missing string) {
	switch {
	case !slices.Contains(f.APIs, agent.DevicePlugin):
		return cdi.Hook{}, "the device plugin, whose shares are bounded, is not run here"
	case f.Strategy == "envvar":
		return cdi.Hook{}, "with --device-list-strategy=envvar containers are made without a hook"
	}
	from := f.LimitHook
	if from == "" {
		self, err := os.Executable()
		if err != nil {
			return cdi.Hook{}, fmt.Sprintf("find %s beside this program: %v", hook.Name, err)
		}
		from = filepath.Join(filepath.Dir(self), hook.Name)
	}
	path, err := f.placeHook(from, hook.Name)
	if err != nil {
		return cdi.Hook{}, err.Error()
	}
	return cdi.Hook{Path: path, Args: []string{hook.Name, "--socket=" + filepath.Join(f.KubeletDir, hook.SocketName)}}, ""
}

// cgroups are those of the host. Processes are those of our own PID namespace, wherever the driver's part of /proc is mounted.
func (f *Flags) cgroups() agent.Cgroups {
	return cgroup.Tree{Root: filepath.Join(f.SysRoot, "fs/cgroup"), Proc: "/proc"}
}
