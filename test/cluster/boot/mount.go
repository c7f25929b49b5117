// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package boot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"gpuslice/test/cluster/node"
)

// isolate gives the cluster file systems of its own. The caller must be in a new mount and process namespace.
func isolate() error {
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	if err := mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	for _, dir := range []string{"/var/lib", "/var/log", "/dev"} {
		if err := copyOnWrite(dir); err != nil {
			return err
		}
	}
	// The runtime keeps overlays of its own, which cannot lie on an overlay.
	for _, dir := range []string{node.KubeletDir, "/var/lib/containerd"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("create %s: %w", dir, err)
		}
		if err := mount("tmpfs", dir, "tmpfs", 0, "mode=755"); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(node.CDIDir, 0o755); err != nil {
		return fmt.Errorf("create the CDI folder: %w", err)
	}
	// Pods may ask for mount propagation, which needs shared mounts.
	return mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")
}

// copyOnWrite keeps changes below dir in memory. File systems mounted on the folders of dir stay mounted.
func copyOnWrite(dir string) (err error) {
	inner, err := openMounts(dir)
	defer func() {
		for _, folder := range inner {
			err = errors.Join(err, folder.Close())
		}
	}()
	if err != nil {
		return err
	}
	scratch := path("overlay" + strings.ReplaceAll(dir, "/", "-"))
	upper, work := filepath.Join(scratch, "upper"), filepath.Join(scratch, "work")
	if err := errors.Join(os.MkdirAll(upper, 0o755), os.MkdirAll(work, 0o755)); err != nil {
		return fmt.Errorf("create the overlay of %s: %w", dir, err)
	}
	if err := mount("overlay", dir, "overlay", 0, "lowerdir="+dir+",upperdir="+upper+",workdir="+work); err != nil {
		return err
	}
	for _, folder := range inner {
		if err := mount(fmt.Sprintf("/proc/self/fd/%d", folder.Fd()), folder.Name(), "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

// openMounts opens the folders directly below dir that another file system is mounted on.
func openMounts(dir string) ([]*os.File, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	device, err := deviceOf(dir)
	if err != nil {
		return nil, err
	}
	var folders []*os.File
	for _, entry := range entries {
		name := filepath.Join(dir, entry.Name())
		if !entry.IsDir() {
			continue
		}
		other, err := deviceOf(name)
		if errors.Is(err, fs.ErrNotExist) || err == nil && other == device {
			continue
		}
		if err != nil {
			return folders, err
		}
		folder, err := os.Open(name)
		if err != nil {
			return folders, fmt.Errorf("keep the mount: %w", err)
		}
		folders = append(folders, folder)
	}
	return folders, nil
}

func deviceOf(name string) (uint64, error) {
	var stat unix.Stat_t
	if err := unix.Lstat(name, &stat); err != nil {
		return 0, fmt.Errorf("stat %s: %w", name, err)
	}
	return uint64(stat.Dev), nil
}

func mount(source, target, kind string, flags uintptr, data string) error {
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("mount %s %s on %s (flags %#x): %w", kind, source, target, flags, err)
	}
	return nil
}
