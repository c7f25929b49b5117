// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package drivertest_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"gpuslice/pkg/devices"
)

// list names the files below a folder, relative to it.
func list(t *testing.T, folder string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, relErr := filepath.Rel(folder, path)
			names, err = append(names, name), relErr
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return names
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	return string(must[[]byte](t)(os.ReadFile(filepath.Join(path...))))
}

// Nodes have the numbers and permissions that the kernel's files tell.
func TestNodesAreCharacterDevices(t *testing.T) {
	n := startNode(t, "gpus: [{model: h100-sxm5-80gb, minor: 5}, {model: l40s, minor: 2}]")
	type device struct {
		Major, Minor uint32
		Mode         fs.FileMode
	}
	want := map[string]device{
		"nvidia5": {195, 5, 0o666}, "nvidia2": {195, 2, 0o666}, "nvidiactl": {195, 255, 0o666}, "nvidia-modeset": {195, 254, 0o666},
		"nvidia-uvm": {508, 0, 0o666}, "nvidia-uvm-tools": {508, 1, 0o666},
		"nvidia-caps/nvidia-cap1": {235, 1, 0o400}, "nvidia-caps/nvidia-cap2": {235, 2, 0o400},
	}
	for gi := range 15 {
		for ci := -1; ci < 8; ci++ {
			minor := capMinor(5, gi, ci)
			want[fmt.Sprintf("nvidia-caps/nvidia-cap%d", minor)] = device{235, uint32(minor), 0o444}
		}
	}
	got := map[string]device{}
	for _, name := range list(t, filepath.Join(n.paths.Dev, "dev")) {
		var stat unix.Stat_t
		check(t, unix.Stat(filepath.Join(n.paths.Dev, "dev", name), &stat))
		if stat.Mode&unix.S_IFMT != unix.S_IFCHR {
			t.Errorf("%s is no character device", name)
		}
		got[name] = device{unix.Major(stat.Rdev), unix.Minor(stat.Rdev), fs.FileMode(stat.Mode & 0o777)}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	majors := read(t, n.paths.Proc, "devices")
	for _, line := range []string{"195 nvidia\n", "235 nvidia-caps\n", "508 nvidia-uvm\n"} {
		if !strings.Contains(majors, line) {
			t.Errorf("devices has no %q:\n%s", line, majors)
		}
	}
}

// The kernel's table of capabilities is the published one; 4322 is a number from NVIDIA's own documentation.
func TestCapabilitiesAreNumbered(t *testing.T) {
	n := startNode(t, mixed)
	lines := strings.Split(strings.TrimSpace(read(t, n.paths.Proc, "driver/nvidia-caps/mig-minors")), "\n")
	if len(lines) != 2+32*15*9 {
		t.Errorf("%d lines", len(lines))
	}
	for _, want := range []string{"config 1", "monitor 2", "gpu0/gi0/access 3", "gpu0/gi0/ci0/access 4", "gpu1/gi2/ci0/access 157", "gpu31/gi14/ci7/access 4322"} {
		if !slices.Contains(lines, want) {
			t.Errorf("no line %q", want)
		}
	}
}

// Capability files come and go with the instances, before the call that makes or destroys them comes back.
func TestCapabilityFilesFollowInstances(t *testing.T) {
	n := startNode(t, "gpus: [{model: l40s}, {model: h100-sxm5-80gb}]")
	folder := filepath.Join(n.paths.Proc, "driver/nvidia/capabilities")
	idle := []string{"mig/config", "mig/monitor"}
	follows := func(when string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(append(want, idle...), list(t, folder)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	follows("idle")
	d, _ := n.opened()
	gpu := must[devices.GPUHandle](t)(d.GPUByIndex(1))
	_, err := d.SetMIGMode(gpu, true)
	check(t, err)
	profile := must[devices.GIProfile](t)(d.GIProfile(gpu, 0))
	gi := must[devices.GIHandle](t)(d.CreateGI(gpu, profile.ID, must[[]devices.Placement](t)(d.GIPlacements(gpu, profile.ID))[0]))
	id := must[devices.GIInfo](t)(d.GIInfo(gi)).ID
	access := fmt.Sprintf("gpu1/mig/gi%d/access", id)
	follows("GPU instance", access)
	ci := must[devices.CIHandle](t)(d.CreateCI(gi, must[devices.CIProfile](t)(d.CIProfile(gi, 0)).ID))
	inner := fmt.Sprintf("gpu1/mig/gi%d/ci0/access", id)
	follows("compute instance", access, inner)
	want := fmt.Sprintf("DeviceFileMinor: %d\nDeviceFileMode: 292\nDeviceFileModify: 1\n", capMinor(1, id, 0))
	if got := read(t, folder, inner); got != want {
		t.Errorf("capability is %q, want %q", got, want)
	}
	check(t, d.DestroyCI(ci), d.DestroyGI(gi))
	follows("destroyed")
}

// A driver upgrade takes the old version's files away; no link is left without its file.
func TestAnUpgradeReplacesTheInstallation(t *testing.T) {
	n := startNode(t, "gpus: [{model: l40s}]")
	n.control("unload")
	if got := list(t, filepath.Join(n.paths.Proc, "driver")); len(got) > 0 {
		t.Errorf("without kernel modules /proc/driver has %v", got)
	}
	n.control("load", "600.10")
	var versioned []string
	folder := filepath.Dir(n.paths.NVML())
	for _, name := range list(t, folder) {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			t.Errorf("dangling link: %v", err)
		}
		if _, version, found := strings.Cut(name, ".so.6"); found {
			versioned = append(versioned, version)
		}
		if strings.Contains(name, "595") {
			t.Errorf("%s is left", name)
		}
	}
	if len(versioned) != 5 {
		t.Errorf("%d libraries of the new version", len(versioned))
	}
	if got := read(t, n.paths.Proc, "driver/nvidia/version"); !strings.Contains(got, "  600.10  ") {
		t.Errorf("version is %q", got)
	}
	if got := read(t, n.paths.Sys, "module/nvidia/version"); got != "600.10\n" {
		t.Errorf("module version is %q", got)
	}
	d, _ := n.opened()
	if got := must[string](t)(d.DriverVersion()); got != "600.10" {
		t.Errorf("driver says %s", got)
	}
}

// GPUs that are plugged in and pulled out take their files with them; a reset may renumber.
func TestFilesFollowPlugging(t *testing.T) {
	n := startNode(t, "gpus: [{model: l40s, renumberOnReset: true}]")
	gpus := func() string {
		var names []string
		for _, name := range list(t, filepath.Join(n.paths.Dev, "dev")) {
			if strings.Trim(name, "0123456789") == "nvidia" {
				names = append(names, name)
			}
		}
		pci := must[[]os.DirEntry](t)(os.ReadDir(filepath.Join(n.paths.Sys, "bus/pci/devices")))
		proc := must[[]os.DirEntry](t)(os.ReadDir(filepath.Join(n.paths.Proc, "driver/nvidia/gpus")))
		return fmt.Sprint(names, len(pci), len(proc))
	}
	for _, tt := range []struct {
		words []string
		want  string
	}{
		{[]string{"add", "h100-sxm5-80gb"}, "[nvidia0 nvidia1] 2 2"},
		{[]string{"reset", "0"}, "[nvidia1 nvidia2] 2 2"},
		{[]string{"remove", "1"}, "[nvidia2] 1 1"},
	} {
		n.control(tt.words...)
		if got := gpus(); got != tt.want {
			t.Errorf("after %v: %s, want %s", tt.words, got, tt.want)
		}
	}
}

// A boot has an id of its own.
func TestARebootChangesTheBootID(t *testing.T) {
	n := startNode(t, twoCut)
	before := read(t, n.paths.Proc, "sys/kernel/random/boot_id")
	n.control("reboot")
	after := read(t, n.paths.Proc, "sys/kernel/random/boot_id")
	if before == after || strings.TrimSpace(after) != n.Machine().BootID() {
		t.Errorf("boot id was %q and is %q", before, after)
	}
	if got := list(t, filepath.Join(n.paths.Proc, "driver/nvidia/capabilities")); len(got) != 2 {
		t.Errorf("capabilities after a boot: %v", got)
	}
}

// PCI devices hang below a root of their NUMA node, which is what tells devices near each other.
func TestDevicesHangBelowTheirPCIRoot(t *testing.T) {
	n := startNode(t, "gpus: [{model: l40s, numa: 0}, {model: l40s, numa: 1}]")
	for i, want := range []string{"pci0000:00", "pci0000:80"} {
		link := filepath.Join(n.paths.Sys, "bus/pci/devices", kernelBusID(n.gpu(i)))
		target := must[string](t)(filepath.EvalSymlinks(link))
		if !strings.Contains(target, "/sys/devices/"+want+"/") {
			t.Errorf("GPU %d is at %s, want below %s", i, target, want)
		}
		if driver := must[string](t)(filepath.EvalSymlinks(filepath.Join(link, "driver"))); filepath.Base(driver) != "nvidia" {
			t.Errorf("driver of GPU %d is %s", i, driver)
		}
		if got := read(t, link, "numa_node"); got != fmt.Sprintln(i) {
			t.Errorf("NUMA node of GPU %d is %q", i, got)
		}
	}
}
