// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"gpuslice/internal/config"
	"gpuslice/internal/config/nvidia"
)

// ConvertCommand turns configs of NVIDIA's tools into ours.
func ConvertCommand() Command {
	return Command{Name: "convert", Summary: "print the config that says the same as those of NVIDIA's device plugin and mig-parted", Run: runConvert}
}

func runConvert(_ context.Context, f *Flags, s Streams) int {
	in, err := f.convertInput()
	if err != nil {
		return fail(s, f, "convert", err)
	}
	c, warnings, err := nvidia.Convert(in)
	for _, w := range warnings {
		say(s.Err, fmt.Errorf("warning: %w", w))
	}
	if err != nil {
		say(s.Err, err)
		return failed
	}
	text, err := c.YAML()
	if err != nil {
		return fail(s, f, "convert", err)
	}
	fmt.Fprintf(s.Out, "%s", text)
	return ok
}

func (f *Flags) convertInput() (in nvidia.Input, err error) {
	if f.DevicePluginConfig == "" && f.MIGPartedConfig == "" {
		return in, errors.New("want --device-plugin-config=FILE, --mig-parted-config=FILE, or both")
	}
	in = nvidia.Input{DevicePluginFile: f.DevicePluginConfig, MIGPartedFile: f.MIGPartedConfig, Selected: f.Selected}
	if in.DevicePluginFile != "" {
		if in.DevicePlugin, err = readInput("device-plugin-config", in.DevicePluginFile); err != nil {
			return in, err
		}
	}
	if in.MIGPartedFile != "" && in.MIGPartedFile != config.BuiltIn {
		in.MIGParted, err = readInput("mig-parted-config", in.MIGPartedFile)
	}
	return in, err
}

func readInput(flag, path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("--%s: there is no file %s", flag, path)
	}
	return text, err
}
