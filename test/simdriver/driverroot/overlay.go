// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package driverroot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// OntoHost makes the driver's files appear at "/", over what is there, as packages do, and its nodes if they are below
// the same root. What the kernel shows stays where it is. It is for a mount namespace of one's own; undo takes everything away.
func (p Paths) OntoHost() (undo func() error, err error) {
	var mounted, made []string
	undo = func() error {
		errs := []error{}
		for _, dir := range mounted {
			errs = append(errs, unix.Unmount(dir, unix.MNT_DETACH))
		}
		for _, dir := range made {
			errs = append(errs, os.Remove(dir))
		}
		return errors.Join(errs...)
	}
	l := p.layout()
	over := []string{l.Libraries, l.Programs}
	if p.Dev == p.Root {
		over = append(over, "dev")
	}
	for _, dir := range over {
		host := filepath.Join("/", dir)
		if err := unix.Mount("overlay", host, "overlay", 0, "lowerdir="+filepath.Join(p.Root, dir)+":"+host); err != nil {
			return undo, fmt.Errorf("put the driver over %s: %w", host, err)
		}
		mounted = append(mounted, host)
	}
	for _, dir := range []string{filepath.Join("lib/firmware", "nvidia"), "run/nvidia-persistenced"} {
		host := filepath.Join("/", dir)
		if err := os.Mkdir(host, 0o755); err == nil {
			made = append(made, host)
		} else if !errors.Is(err, fs.ErrExist) {
			return undo, fmt.Errorf("put the driver at %s: %w", host, err)
		}
		if err := unix.Mount(filepath.Join(p.Root, dir), host, "", unix.MS_BIND, ""); err != nil {
			return undo, fmt.Errorf("put the driver at %s: %w", host, err)
		}
		mounted = append(mounted, host)
	}
	return undo, nil
}
