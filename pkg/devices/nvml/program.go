// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package nvml

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"gpuslice/pkg/devices"
)

// programDirs are where distributions and driver containers put the driver's programs, in the order they are tried.
var programDirs = []string{"usr/bin", "usr/local/bin", "bin", "opt/bin"}

const programName = "nvidia-smi"

// Program is the driver's nvidia-smi under the driver root. It runs with that root as its own, because it is built
// for the libraries that lie there.
type Program struct{ DriverRoot string }

// Reset implements devices.Program.
func (p Program) Reset(ctx context.Context, busID string) error {
	_, err := p.run(ctx, "--gpu-reset", "-i", busID)
	return err
}

// TimeSlice implements devices.Program. The program prints a table for people; the policy is the one of its four words that
// stands in it.
func (p Program) TimeSlice(ctx context.Context, busID string) (int, error) {
	said, err := p.run(ctx, "compute-policy", "-i", busID, "--list")
	if err != nil {
		return 0, err
	}
	for _, word := range strings.FieldsFunc(strings.ToLower(said), func(r rune) bool { return r < 'a' || r > 'z' }) {
		if i := slices.Index(timeSlices, word); i >= 0 {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%s compute-policy --list names none of %s: %s", programName, strings.Join(timeSlices, ", "), said)
}

var timeSlices = []string{"default", "short", "medium", "long"}

// SetTimeSlice implements devices.Program.
func (p Program) SetTimeSlice(ctx context.Context, busID string, interval int) error {
	_, err := p.run(ctx, "compute-policy", "-i", busID, "--set-timeslice", strconv.Itoa(interval))
	return err
}

// run returns what the program says, on one line.
func (p Program) run(ctx context.Context, args ...string) (said string, err error) {
	name, err := p.find()
	if err != nil {
		return "", err
	}
	what := programName + " " + strings.Join(args, " ")
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = "/"
	command.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	if root := filepath.Clean(p.DriverRoot); root != "/" {
		command.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	}
	output, err := command.CombinedOutput()
	said = strings.Join(strings.Fields(string(output)), " ")
	if err == nil {
		return said, nil
	}
	var exit *exec.ExitError
	switch {
	case strings.Contains(said, "in use") || strings.Contains(said, "being used"):
		return said, fmt.Errorf("%s: %s: %w", what, said, devices.ErrInUse)
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		// It ends with the number of the driver's answer.
		return said, fmt.Errorf("%s: %s: %w", what, said, devices.Code(exit.ExitCode()))
	}
	return said, fmt.Errorf("%s: %w: %s", what, err, said)
}

// find returns the program's path inside the driver root.
func (p Program) find() (string, error) {
	for _, dir := range programDirs {
		if _, err := within(p.DriverRoot, filepath.Join(dir, programName)); err == nil {
			return filepath.Join("/", dir, programName), nil
		}
	}
	return "", fmt.Errorf("no %s in %s of the driver root %s: %w", programName, strings.Join(programDirs, ", "), p.DriverRoot, devices.ErrNotSupported)
}
