// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// place is a folder and the file system that it is on.
type place struct{ dir, fileSystem string }

// fileSystems are names of the magic numbers that statfs(2) answers.
var fileSystems = map[int64]string{
	unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", unix.F2FS_SUPER_MAGIC: "f2fs",
	unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.TMPFS_MAGIC: "tmpfs", unix.RAMFS_MAGIC: "ramfs",
}

func placeOf(dir string) (place, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return place{}, fmt.Errorf("file system of %s: %w", dir, err)
	}
	magic := int64(stat.Type) //nolint:unconvert // its width differs between architectures
	if name, ok := fileSystems[magic]; ok {
		return place{dir, name}, nil
	}
	return place{dir, fmt.Sprintf("%#x", magic)}, nil
}

// inMemory says that fsync costs nothing there, which no node's disk offers.
func (p place) inMemory() bool { return p.fileSystem == "tmpfs" || p.fileSystem == "ramfs" }

func (p place) String() string { return p.dir + " (" + p.fileSystem + ")" }

// choose takes the first place that is not in memory and says which it passed over.
func choose(places []place) (chosen place, refused string, err error) {
	passed := []string{}
	for _, p := range places {
		if !p.inMemory() {
			if len(passed) > 0 {
				refused = fmt.Sprintf("not measured on %s, where fsync costs nothing; taking %s", strings.Join(passed, ", "), p)
			}
			return p, refused, nil
		}
		passed = append(passed, p.String())
	}
	return place{}, "", fmt.Errorf("every folder is in memory: %s; name one on a disk by -dir", strings.Join(passed, ", "))
}

// folder makes the folder of this run in the first of dirs that is on a disk.
func folder(dirs ...string) (at place, refused string, err error) {
	places := []place{}
	for _, dir := range dirs {
		p, err := placeOf(dir)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return place{}, "", err
		}
		places = append(places, p)
	}
	at, refused, err = choose(places)
	if err != nil {
		return at, refused, err
	}
	at.dir, err = os.MkdirTemp(at.dir, "bench")
	return at, refused, err
}
