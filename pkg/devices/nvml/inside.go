// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package nvml

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// inside runs a function in which root is "/". It has a thread for itself, which ends with it; it must start no goroutine, which
// would be outside.
func inside(root string, f func() error) error {
	if root == "/" {
		return f()
	}
	done := make(chan error, 1)
	go func() { done <- enter(root, f) }()
	return <-done
}

func enter(root string, f func() error) error {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		defer runtime.UnlockOSThread() // /proc/self tells of the first thread, which stays as it is; while held, others are used
		return inside(root, f)
	}
	// Not unlocked: a thread that cannot leave the root is of no use to others.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("enter the driver root: %w", err)
	}
	if err := unix.Chroot(root); err != nil {
		return fmt.Errorf("enter the driver root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return fmt.Errorf("enter the driver root: %w", err)
	}
	return f()
}
