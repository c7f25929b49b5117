// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package devices

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gpuslice/pkg/regular"
)

// maxHostFile is far above what the kernel says in any file that is read here.
const maxHostFile = 64 << 10

// HostFiles is what the kernel says of a node's GPUs in /proc and /sys. Each file is asked for one GPU alone, is read to a bound,
// and says nothing when it is missing or odd: what is not known is absent (P3, P7).
type HostFiles struct {
	Proc string // "/proc"
	Sys  string // "/sys"
}

// ReadHostFile reads a file that the kernel writes. Anything else in its place is an error, at once and whatever its size.
func ReadHostFile(path string) (string, error) {
	text, err := regular.ReadFile(path, maxHostFile)
	return string(text), err
}

// busIDPattern is a PCI address as the kernel writes it: a domain has four digits, or more where it needs them.
var busIDPattern = regexp.MustCompile(`^(?:[0-9a-f]{4}|[1-9a-f][0-9a-f]{4,7}):[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// maxNUMANode is the largest number that Linux can be built for (CONFIG_NODES_SHIFT is 10).
const maxNUMANode = 1023

// NUMANode is the node that the GPU at a PCI address is nearest to; -1 = unknown, as the kernel itself says where there are none.
func (h HostFiles) NUMANode(pci string) int {
	if !busIDPattern.MatchString(pci) {
		return -1
	}
	text, err := ReadHostFile(filepath.Join(h.Sys, "bus/pci/devices", pci, "numa_node"))
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || n < 0 || n > maxNUMANode {
		return -1
	}
	return n
}

// Bound lists the PCI addresses that the kernel has given to the NVIDIA driver; nil = not known.
func (h HostFiles) Bound() []string {
	folder, err := os.Open(filepath.Join(h.Sys, "bus/pci/drivers/nvidia"))
	if err != nil {
		return nil
	}
	defer folder.Close()
	names, err := folder.Readdirnames(maxBound)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !busIDPattern.MatchString(name) })
	slices.Sort(names)
	return append([]string{}, names...) // that there is none is known too
}

// Load names the load of the kernel module by the number of its folder, which the kernel gives once; "" = not known. Other file
// systems give a number again, and say when a folder was made.
func (h HostFiles) Load() string {
	path := filepath.Join(h.Sys, "module/nvidia")
	var is unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO|unix.STATX_BTIME, &is); err != nil {
		return ""
	}
	var system unix.Statfs_t
	if err := unix.Statfs(path, &system); err != nil || system.Type == unix.SYSFS_MAGIC || is.Mask&unix.STATX_BTIME == 0 {
		return strconv.FormatUint(is.Ino, 10)
	}
	return fmt.Sprintf("%d-%d.%09d", is.Ino, is.Btime.Sec, is.Btime.Nsec)
}

// maxBound bounds how many entries of a driver are read: far more than there are GPUs.
const maxBound = 4096

// SystemMemory is the host's memory in MiB; 0 = unknown.
func (h HostFiles) SystemMemory() uint64 {
	text, err := ReadHostFile(filepath.Join(h.Proc, "meminfo"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[0] != "MemTotal:" || fields[2] != "kB" {
			continue
		}
		kib, err := strconv.ParseUint(fields[1], 10, 64)
		if err != nil {
			return 0
		}
		return kib >> 10
	}
	return 0
}
