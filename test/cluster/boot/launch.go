// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package boot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// StageInit is the first of the two arguments with which Launch calls the program again.
	StageInit = "inside-init"
	// StageNode is the second of the two.
	StageNode = "inside-node"

	// StatusBroken is the exit status of the inside when the cluster failed and not the command in it.
	StatusBroken = 125

	// endLimit is how long the inside may take to end after an interrupt.
	endLimit = time.Minute
)

// Launch runs the calling program again as StageInit in new namespaces and returns the exit status of the command in the cluster.
// A status other than zero keeps the logs. Without command the cluster stays up until ctx ends.
func Launch(ctx context.Context, programs map[string]string, command []string, progress io.Writer) (status int, err error) {
	if err := checkMachine(); err != nil {
		return 0, fmt.Errorf("this machine cannot hold a cluster: %w", err)
	}
	roots, err := mountedHierarchies()
	if err != nil {
		return 0, err
	}
	if err := sweep(roots); err != nil {
		fmt.Fprintf(progress, "left by an earlier cluster: %v\n", err)
	}
	logs, err := os.MkdirTemp("", "gpuslice-cluster-")
	if err != nil {
		return 0, fmt.Errorf("create the log folder: %w", err)
	}
	settings := Settings{Programs: programs, Cgroup: cgroupPrefix + strconv.Itoa(os.Getpid()), Logs: logs}
	status, err = runInside(ctx, settings, command, progress)
	// An interrupt ends the inside, never the clean-up after it.
	err = errors.Join(err, removeCgroup(context.WithoutCancel(ctx), roots, settings.Cgroup))
	if err != nil || status != 0 {
		fmt.Fprintf(progress, "the logs of the cluster are kept in %s\n", logs)
		return status, err
	}
	if err := os.RemoveAll(logs); err != nil {
		return 0, fmt.Errorf("remove the logs: %w", err)
	}
	return 0, nil
}

func runInside(ctx context.Context, s Settings, command []string, progress io.Writer) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("find the running program: %w", err)
	}
	encoded, err := json.Marshal(s)
	if err != nil {
		return 0, fmt.Errorf("encode the settings: %w", err)
	}
	inside := exec.CommandContext(ctx, self, append([]string{StageInit, StageNode, string(encoded)}, command...)...)
	inside.Stdin, inside.Stdout, inside.Stderr = os.Stdin, os.Stdout, os.Stderr
	inside.Cancel = func() error { return inside.Process.Signal(syscall.SIGTERM) }
	inside.WaitDelay = endLimit
	inside.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID,
		// The kernel ends the inside even if this process is killed. It goes by thread, so the thread must stay.
		Pdeathsig: syscall.SIGKILL,
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := inside.Start(); err != nil {
		return 0, fmt.Errorf("make the namespaces: %w", err)
	}
	fmt.Fprintf(progress, "enter the cluster with: nsenter --target %d --mount --net --pid\n", inside.Process.Pid)
	err = inside.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exitStatus(exit.ProcessState), nil
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return 0, fmt.Errorf("wait for the cluster: %w", err)
	}
	return 0, nil
}

// exitStatus follows the shell: a signal counts from 128.
func exitStatus(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok {
		return shellStatus(status)
	}
	return state.ExitCode()
}

func shellStatus(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
