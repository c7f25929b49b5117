// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package nvml

import (
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// firmware has a folder for each version of the driver.
const firmware = "lib/firmware/nvidia"

// inLibraries are folders beside the libraries that the driver fills on its own.
var inLibraries = []string{"vdpau", "nvidia", "gbm"}

// printed are, beside the folders of libraries and programs, what is looked at to see whether the driver's files changed.
var printed = []string{
	firmware, "etc/vulkan/icd.d", "usr/share/vulkan/icd.d", "usr/share/glvnd/egl_vendor.d", "usr/share/nvidia",
	"run/nvidia-persistenced/socket", "run/nvidia-fabricmanager/socket", "var/run/nvidia-persistenced/socket",
}

// Print changes when the driver's files are installed, removed or replaced. It takes a few dozen calls of stat and one list, so
// that it can be taken every other second. A link that is switched changes its folder.
func Print(driverRoot string) string {
	h := fnv.New64a()
	add := func(real string, err error) {
		var s unix.Stat_t
		if err == nil {
			err = unix.Lstat(real, &s)
		}
		if err != nil {
			h.Write([]byte("-")) // what is not there yet may come
			return
		}
		for _, n := range []uint64{s.Dev, s.Ino, uint64(s.Size), uint64(s.Mtim.Nano())} {
			h.Write(strconv.AppendUint([]byte{' '}, n, 36))
		}
	}
	root, err := filepath.EvalSymlinks(driverRoot)
	if err != nil {
		return "-"
	}
	folders := []string{}
	for _, dir := range libraryDirs {
		real, err := inRoot(root, dir)
		if slices.Contains(folders, real) {
			continue // lib is a link to usr/lib
		}
		if add(real, err); err == nil {
			folders = append(folders, real)
			for _, name := range inLibraries {
				add(filepath.Join(real, name), nil)
			}
		}
	}
	for _, path := range slices.Concat(programDirs, printed) {
		add(inRoot(root, path))
	}
	if real, err := inRoot(root, firmware); err == nil {
		versions, _ := os.ReadDir(real)
		for _, v := range versions {
			add(filepath.Join(real, v.Name()), nil)
		}
	}
	return strconv.FormatUint(h.Sum64(), 36)
}
