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
	"os/signal"
	"syscall"
	"time"
)

// Init is process 1 of the cluster. It runs the calling program with the arguments, passes interrupts on to it, and collects every
// process that loses its parent. It returns the exit status of the program; afterwards the kernel ends all that is left.
func Init(args []string) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("find the running program: %w", err)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	child, err := syscall.ForkExec(self, append([]string{self}, args...), &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	if err != nil {
		return 0, fmt.Errorf("start the inside: %w", err)
	}
	// This goroutine ends with the process.
	go func() {
		for range signals {
			// The child may have ended, which Wait4 reports.
			_ = syscall.Kill(child, syscall.SIGTERM)
		}
	}()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return 0, fmt.Errorf("wait for the inside: %w", err)
		}
		if pid == child {
			return shellStatus(status), nil
		}
	}
}

// Inside brings the node up, runs the command in it and returns the command's exit status. Without command it stays until ctx ends.
func Inside(ctx context.Context, encoded string, command []string, progress io.Writer) (status int, err error) {
	var settings Settings
	if err := json.Unmarshal([]byte(encoded), &settings); err != nil {
		return 0, fmt.Errorf("decode the settings: %w", err)
	}
	err = Run(ctx, settings, progress, func(ctx context.Context) error {
		if len(command) == 0 {
			fmt.Fprintf(progress, "the kubeconfig inside is %s; interrupt to end\n", clusterDir.Kubeconfig())
			<-ctx.Done()
			return nil
		}
		return runCommand(ctx, command)
	})
	if exit, ok := errors.AsType[*commandError](err); ok {
		return exit.status, nil
	}
	return 0, err
}

// commandError is a command that ran and failed; the cluster did its part.
type commandError struct{ status int }

func (e *commandError) Error() string { return fmt.Sprintf("exit status %d", e.status) }

func runCommand(ctx context.Context, argv []string) error {
	command := exec.CommandContext(ctx, argv[0], argv[1:]...)
	command.Env = append(os.Environ(), Environment()...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = 10 * time.Second
	err := command.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return &commandError{exitStatus(exit.ProcessState)}
	}
	if err != nil {
		return fmt.Errorf("run %s: %w", argv[0], err)
	}
	return nil
}
