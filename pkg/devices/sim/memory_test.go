// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"gpuslice/pkg/devices"
)

// limiter is a session on a driver that has limits, beside a folder that stands for a cgroup.
func limiter(t *testing.T, driver, gpu string) (f fixture, h devices.GPUHandle, cgroup string) {
	t.Helper()
	m, err := ParseYAML(fmt.Appendf(nil, "driver: {%s}\ngpus: [{model: h100-sxm5-80gb%s}]\n", driver, gpu))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	f = open(t, m, Admin("test"))
	cgroup = filepath.Join(t.TempDir(), "c")
	if err := os.Mkdir(cgroup, 0o755); err != nil {
		t.Fatal(err)
	}
	return f, f.at(0), cgroup
}

func TestMemoryLimitsStand(t *testing.T) {
	f, gpu, cgroup := limiter(t, "version: 615.28.01", "")
	_, err := f.MemoryLimits(gpu, cgroup)
	f.wants(err, devices.ErrNotFound)
	f.ok(f.SetMemoryLimits(gpu, cgroup, 1<<20, 2<<20))
	got, err := f.MemoryLimits(gpu, cgroup)
	f.ok(err)
	if got != (devices.MemoryLimits{Soft: 1 << 20, Hard: 2 << 20}) {
		t.Errorf("limits are %+v", got)
	}
	link := cgroup + "-by-another-name"
	f.ok(os.Symlink(cgroup, link))
	if other, err := f.MemoryLimits(gpu, link); err != nil || other != got {
		t.Errorf("the cgroup by another name has %+v, %v", other, err)
	}
	f.ok(f.SetMemoryLimits(gpu, cgroup, 0, devices.NoMemoryLimit))
	_, err = f.MemoryLimits(gpu, cgroup)
	f.wants(err, devices.ErrNotFound)
	if n := len(f.machine.Log()); n != 2 {
		t.Errorf("%d attempts are logged, want both", n)
	}
	reserved, err := f.ReservedMemory(gpu)
	f.ok(err)
	if reserved != 637<<20 { // a 128th of 81559 MiB
		t.Errorf("%d MiB are reserved", reserved>>20)
	}
}

// A limit is that of the cgroup, not of its name, and the driver forgets all when it is loaded anew.
func TestMemoryLimitsGo(t *testing.T) {
	for why, end := range map[string]func(f fixture, cgroup string) error{
		"the cgroup is removed and another is made": func(_ fixture, cgroup string) error {
			if err := os.Rename(cgroup, cgroup+"-gone"); err != nil { // keeps its inode from being used again
				return err
			}
			return os.Mkdir(cgroup, 0o755)
		},
		"reboot": func(f fixture, _ string) error { f.machine.Reboot(); return nil },
		"the driver is loaded anew": func(f fixture, _ string) error {
			f.machine.CloseClient("test")
			err := f.machine.UnloadDriver()
			f.machine.LoadDriver("")
			return err
		},
	} {
		f, gpu, cgroup := limiter(t, "version: 615.28.01", "")
		f.ok(f.SetMemoryLimits(gpu, cgroup, 0, 2<<20))
		f.ok(end(f, cgroup))
		next := open(t, f.machine, Admin("next"))
		if _, err := next.MemoryLimits(next.at(0), cgroup); err != devices.ErrNotFound { //nolint:errorlint // the seam's errors are bare
			t.Errorf("%s: %v", why, err)
		}
		if left, err := f.machine.MemoryLimits(0); err != nil || len(left) > 0 {
			t.Errorf("%s: %v, %v", why, left, err)
		}
	}
}

func TestMemoryLimitsAreRefused(t *testing.T) {
	const total = 81559 << 20
	for _, tc := range []struct {
		why, driver, gpu string
		soft, hard       uint64
		cgroup           string
		want             error
	}{
		{"a driver from before", "version: 610.43.02", "", 0, 1 << 20, "", devices.ErrFunctionNotFound},
		{"the default driver", "", "", 0, 1 << 20, "", devices.ErrFunctionNotFound},
		{"a driver that cannot", "version: 615.28.01, memoryLimits: false", "", 0, 1 << 20, "", devices.ErrNotSupported},
		{"a driver that can before its time", "memoryLimits: true", "", 0, 1 << 20, "", nil},
		{"MIG mode", "version: 615.28.01", ", mig: true", 0, 1 << 20, "", devices.ErrNotSupported},
		{"no such cgroup", "version: 615.28.01", "", 0, 1 << 20, "/nowhere", devices.ErrOperatingSystem},
		{"a file is no cgroup", "version: 615.28.01", "", 0, 1 << 20, "/proc/self/status", devices.ErrOperatingSystem},
		{"soft above hard", "version: 615.28.01", "", 2 << 20, 1 << 20, "", devices.ErrInvalidArgument},
		{"more than there is", "version: 615.28.01", "", 0, total + 1, "", devices.ErrInvalidArgument},
		{"all there is", "version: 615.28.01", "", total, total, "", nil},
	} {
		f, gpu, cgroup := limiter(t, tc.driver, tc.gpu)
		if tc.cgroup != "" {
			cgroup = tc.cgroup
		}
		if err := f.SetMemoryLimits(gpu, cgroup, tc.soft, tc.hard); err != tc.want { //nolint:errorlint // the seam's errors are bare
			t.Errorf("%s: %v, want %v", tc.why, err, tc.want)
		}
	}
	f, _, cgroup := limiter(t, "version: 615.28.01", "")
	user := open(t, f.machine, Client{Name: "user"})
	user.wants(user.SetMemoryLimits(user.at(0), cgroup, 0, 1<<20), devices.ErrNoPermission)
	_, err := user.MemoryLimits(user.at(0), cgroup)
	user.wants(err, devices.ErrNotFound)
}
