// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package layouts_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"gpuslice/test/simdriver/driverroot"
	"gpuslice/test/specwalk"
)

// P3: where no spec can be written, nothing is offered as healthy that no runtime could inject; everything else goes on, the
// condition says why, with the path and the kernel's word, and it heals by itself when the directory can be written.
func TestDirectoryThatCannotBeWritten(t *testing.T) {
	for _, tt := range []struct {
		name, dir, errno string
		harm, heal       func(n *node) error
	}{
		{
			"read-only file system", "ro/cdi", unix.EROFS.Error(),
			func(n *node) error {
				at := filepath.Join(n.dir, "ro")
				n.t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
				return errors.Join(os.MkdirAll(at, 0o755), unix.Mount("tmpfs", at, "tmpfs", 0, ""), os.Mkdir(filepath.Join(at, "cdi"), 0o755),
					unix.Mount("", at, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
			},
			func(n *node) error { return unix.Mount("", filepath.Join(n.dir, "ro"), "", unix.MS_REMOUNT, "") },
		},
		{
			"no such parent, and none can be made", "ro/no/such/cdi", unix.EROFS.Error(),
			func(n *node) error {
				at := filepath.Join(n.dir, "ro")
				n.t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
				return errors.Join(os.MkdirAll(at, 0o755), unix.Mount("tmpfs", at, "tmpfs", unix.MS_RDONLY, ""))
			},
			func(n *node) error { return unix.Mount("", filepath.Join(n.dir, "ro"), "", unix.MS_REMOUNT, "") },
		},
		{
			"file in its place", "cdi", unix.ENOTDIR.Error(),
			func(n *node) error { return os.WriteFile(filepath.Join(n.dir, "cdi"), nil, 0o600) },
			func(n *node) error { return os.Remove(filepath.Join(n.dir, "cdi")) },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t, "run/nvidia/driver", driverroot.RedHat())
			n.cdiDir = filepath.Join(n.dir, tt.dir)
			if err := tt.harm(n); err != nil {
				t.Fatal(err)
			}
			n.start()
			n.healthy(0, 2)
			n.problem("CDIDirUnusable", n.cdiDir, tt.errno, "--cdi-dir")
			n.healthy(0, 2)
			if err := tt.heal(n); err != nil {
				t.Fatal(err)
			}
			n.healthy(2, 2)
			n.silence()
			if err := specwalk.Directory(n.cdiDir); err != nil {
				t.Error(err)
			}
			if n.agent.ProcessState != nil {
				t.Error("the agent was restarted")
			}
		})
	}
}
