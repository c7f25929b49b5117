// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package drivertest_test

import (
	"os/exec"
	"testing"

	"gpuslice/pkg/devices"
)

func (n node) smiCommand(args ...string) *exec.Cmd {
	return exec.CommandContext(n.t.Context(), n.paths.SMI(), args...)
}

// smi runs the rendered nvidia-smi and returns its output and exit status.
func (n node) smi(args ...string) (string, int) {
	n.t.Helper()
	cmd := n.smiCommand(args...)
	out, err := cmd.Output()
	if cmd.ProcessState == nil {
		n.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func (n node) smiSays(status int, output string, args ...string) {
	n.t.Helper()
	if got, code := n.smi(args...); got != output || code != status {
		n.t.Errorf("nvidia-smi %v: status %d and %q, want %d and %q", args, code, got, status, output)
	}
}

// The driver refuses a reset while anybody holds the GPU, and nvidia-smi says whose GPU it is.
func TestSMIResetsAGPUThatNobodyHolds(t *testing.T) {
	n := startNode(t, "gpus: [{model: a100-sxm4-40gb}, {model: a100-sxm4-40gb}]")
	d, _ := n.opened()
	_, err := d.SetMIGMode(must[devices.GPUHandle](t)(d.GPUByIndex(0)), true)
	check(t, err)
	busID := n.gpu(0).BusID
	n.smiSays(19, "GPU "+busID+" is currently in use by another process: nvidia-smi reset: driver answered IN_USE\n", "-r", "-i", busID)
	check(t, d.Shutdown())
	n.smiSays(0, "GPU "+busID+" was successfully reset.\nAll done.\n", "--gpu-reset", "-i", busID)
	if got, want := n.Machine().Dump(), "gpu-0 a100-sxm4-40gb mig=on []\ngpu-1 a100-sxm4-40gb mig=off\n"; got != want {
		t.Errorf("machine is\n%swant\n%s", got, want)
	}
}

func TestSMISetsPersistenceMode(t *testing.T) {
	n := startNode(t, "gpus: [{model: t4}, {model: t4}]")
	busID := n.gpu(1).BusID
	n.smiSays(0, "Persistence mode set to 1 for GPU "+busID+".\nAll done.\n", "-pm", "1", "-i", n.gpu(1).UUID)
	if n.gpu(0).Persistence || !n.gpu(1).Persistence {
		t.Error("persistence mode is on where it was not asked for")
	}
	n.smiSays(19, "GPU 1 is currently in use by another process: nvidia-smi reset: driver answered IN_USE\n", "-r", "-i", "1")
	n.smiSays(0, "Persistence mode set to 0 for GPU "+busID+".\nAll done.\n", "-pm", "0", "-i=1")
	n.smiSays(0, "GPU "+busID+" was successfully reset.\nAll done.\n", "-r", "-i", "1")
}

// The time slice is the GPU's, and the kernel module forgets it.
func TestSMISetsTheTimeSlice(t *testing.T) {
	n := startNode(t, "gpus: [{model: t4}, {model: t4}]")
	n.smiSays(0, "Successfully set timeslice for GPU "+n.gpu(1).BusID+" to medium.\n", "compute-policy", "-i", n.gpu(1).UUID, "--set-timeslice=2")
	n.smiSays(0, "GPU 0: timeslice default\nGPU 1: timeslice medium\n", "compute-policy", "--list")
	n.control("unload")
	n.smiSays(9, "nvmlInit_v2: driver answered DRIVER_NOT_LOADED\n", "compute-policy", "-l")
	n.control("load")
	n.smiSays(0, "GPU 1: timeslice default\n", "compute-policy", "-i", "1", "-l")
}

func TestSMIRefusesWhatItDoesNotKnow(t *testing.T) {
	n := startNode(t, "gpus: [{model: t4}]")
	for _, args := range [][]string{
		{}, {"-q"}, {"-L", "-q"}, {"-pm", "2"}, {"-pm"}, {"compute-policy"}, {"compute-policy", "--set-timeslice=9"}, {"compute-policy", "--set-timeslice", "-1"},
	} {
		if out, status := n.smi(args...); status != 2 {
			t.Errorf("nvidia-smi %v: status %d and %q", args, status, out)
		}
	}
	n.smiSays(6, "GPU 7 could not be reset: nvidia-smi reset: driver answered NOT_FOUND\n", "-r", "-i", "7")
}
