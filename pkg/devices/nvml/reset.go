// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package nvml

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"gpuslice/pkg/devices"
)

// programDirs are where distributions and driver containers put the driver's programs, in the order they are tried.
var programDirs = []string{"usr/bin", "usr/local/bin", "bin", "opt/bin"}

const resetProgram = "nvidia-smi"

// Program resets GPUs with the driver's nvidia-smi under the driver root. It runs with that root as its own, because it is built
// for the libraries that lie there.
type Program struct{ DriverRoot string }

// Reset implements devices.Resetter.
func (p Program) Reset(ctx context.Context, busID string) error {
	name, err := p.find()
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, name, "--gpu-reset", "-i", busID)
	command.Dir = "/"
	command.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	if root := filepath.Clean(p.DriverRoot); root != "/" {
		command.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	}
	output, err := command.CombinedOutput()
	if err == nil {
		return nil
	}
	said := strings.Join(strings.Fields(string(output)), " ")
	var exit *exec.ExitError
	switch {
	case strings.Contains(said, "in use") || strings.Contains(said, "being used"):
		return fmt.Errorf("%s --gpu-reset -i %s: %s: %w", resetProgram, busID, said, devices.ErrInUse)
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		// It ends with the number of the driver's answer.
		return fmt.Errorf("%s --gpu-reset -i %s: %s: %w", resetProgram, busID, said, devices.Code(exit.ExitCode()))
	}
	return fmt.Errorf("%s --gpu-reset -i %s: %w: %s", resetProgram, busID, err, said)
}

// find returns the program's path inside the driver root.
func (p Program) find() (string, error) {
	for _, dir := range programDirs {
		if _, err := os.Stat(filepath.Join(p.DriverRoot, dir, resetProgram)); err == nil {
			return filepath.Join("/", dir, resetProgram), nil
		}
	}
	return "", fmt.Errorf("no %s in %s of the driver root %s: %w", resetProgram, strings.Join(programDirs, ", "), p.DriverRoot, devices.ErrNotSupported)
}
