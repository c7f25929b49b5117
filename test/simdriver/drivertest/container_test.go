// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package drivertest_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gpuslice/pkg/devices"
	"gpuslice/pkg/devices/sim"
	"gpuslice/test/simdriver/driverroot"
	"gpuslice/test/simdriver/library"
	"gpuslice/test/simdriver/wire"
)

// container makes the root folder of a container: the image's files, what CDI mounts into it, and the given device nodes.
// A link to the socket's inode does what a bind mount does.
func (n node) container(nodes ...string) string {
	n.t.Helper()
	root := publicDir(n.t)
	files, err := artifacts.ImageFiles()
	check(n.t, err)
	for _, f := range files {
		check(n.t, put(filepath.Join(root, f.Path), f.Data))
	}
	inside := driverroot.Under(root)
	for from, to := range map[string]string{artifacts.NVML(library.New): inside.NVML(), artifacts.SMI(): inside.SMI()} {
		check(n.t, put(to, must[[]byte](n.t)(os.ReadFile(from))))
	}
	check(n.t, os.MkdirAll(wire.SocketFolder(root), 0o755))
	check(n.t, os.Link(filepath.Join(wire.SocketFolder(n.paths.Root), "socket"), filepath.Join(wire.SocketFolder(root), "socket")))
	for _, name := range nodes {
		n.passThrough(root, name, 0o666)
	}
	return root
}

func put(path string, data []byte) error {
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o755))
}

// passThrough makes the node of the host in a container.
func (n node) passThrough(root, name string, mode fs.FileMode) {
	n.t.Helper()
	var stat unix.Stat_t
	check(n.t, unix.Stat(filepath.Join(n.paths.Dev, "dev", name), &stat))
	path := filepath.Join(root, "dev", name)
	check(n.t, os.MkdirAll(filepath.Dir(path), 0o755), unix.Mknod(path, stat.Mode, int(stat.Rdev)), os.Chmod(path, mode))
}

// inside runs a program of the container in it and returns what it prints.
func inside(t *testing.T, root string, command ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%s%v\n", out, err)
	}
	return string(out)
}

// capsOf are the nodes of an instance.
func capsOf(g sim.GPU, slot string) []string {
	for _, i := range g.Instances {
		if i.Slot == slot {
			return []string{fmt.Sprintf("nvidia-caps/nvidia-cap%d", capMinor(g.Minor, i.GI, -1)), fmt.Sprintf("nvidia-caps/nvidia-cap%d", capMinor(g.Minor, i.GI, i.CI))}
		}
	}
	return nil
}

// What a container sees is what its device nodes open, and nothing else.
func TestAContainerSeesTheNodesItMayOpen(t *testing.T) {
	n := startNode(t, "gpus: [{model: h100-sxm5-80gb}, {model: h100-sxm5-80gb, instances: [3g.40gb@4, 1g.10gb@0]}]")
	whole, cut := n.gpu(0), n.gpu(1)
	line := func(index int, g sim.GPU) string {
		return fmt.Sprintf("GPU %d: NVIDIA H100 80GB HBM3 (UUID: %s)\n", index, g.UUID)
	}
	device := func(index int, slot string) string {
		for _, i := range cut.Instances {
			if i.Slot == slot {
				profile, _, _ := strings.Cut(slot, "@")
				return fmt.Sprintf("  MIG %-11s Device %2d: (UUID: %s)\n", profile, index, i.UUID)
			}
		}
		return ""
	}
	caps3, caps1 := capsOf(cut, "3g.40gb@4"), capsOf(cut, "1g.10gb@0")
	for _, tt := range []struct {
		name, why string
		nodes     []string
		want      string
	}{
		{"nothing", "P12: a container that asked for nothing", nil, "nvmlInit_v2: Driver Not Loaded\nexit status 9\n"},
		{"control only", "the control node shows no GPU", []string{"nvidiactl"}, ""},
		{"one GPU", "indexes are those of the container", []string{"nvidiactl", "nvidia0"}, line(0, whole)},
		{"the other GPU", "a parent without capabilities has no MIG devices", []string{"nvidiactl", "nvidia1"}, line(0, cut)},
		{
			"one slice", "the only MIG device has index 0", append([]string{"nvidiactl", "nvidia1"}, caps1...),
			line(0, cut) + device(0, "1g.10gb@0"),
		},
		{"half a slice", "a GPU instance without its compute instance is no device", []string{"nvidiactl", "nvidia1", caps3[0]}, line(0, cut)},
		{"slice without its GPU", "a slice needs its GPU's node", append([]string{"nvidiactl", "nvidia0"}, caps3...), line(0, whole)},
		{
			"everything", "as on the host", append(append([]string{"nvidiactl", "nvidia0", "nvidia1"}, caps3...), caps1...),
			line(0, whole) + line(1, cut) + device(0, "3g.40gb@4") + device(1, "1g.10gb@0"),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := node{Daemon: n.Daemon, t: t, paths: n.paths}.container(tt.nodes...)
			if got := inside(t, root, library.ListInImage); got != tt.want {
				t.Errorf("%s: the container sees\n%swant\n%s", tt.why, got, tt.want)
			}
			if len(tt.nodes) == 0 {
				return
			}
			if got := inside(t, root, "/usr/bin/nvidia-smi", "-L"); got != tt.want {
				t.Errorf("%s: nvidia-smi sees\n%swant\n%s", tt.why, got, tt.want)
			}
		})
	}
}

// A node that may not be opened hides its GPU like one that is absent, and look-ups do not find what is hidden.
func TestWhatMayNotBeOpenedIsNotFound(t *testing.T) {
	n := startNode(t, "gpus: [{model: h100-sxm5-80gb}, {model: h100-sxm5-80gb, instances: [3g.40gb@4]}]")
	root := n.container("nvidiactl")
	n.passThrough(root, "nvidia0", 0o000)
	n.passThrough(root, "nvidia1", 0o666)
	inside := node{Daemon: n.Daemon, t: t, paths: driverroot.Under(root)}
	d := inside.process("nobody", false).Driver()
	check(t, d.Init())
	if got := must[int](t)(d.GPUCount()); got != 1 {
		t.Errorf("%d GPUs, want 1", got)
	}
	hidden, shown := n.gpu(0), n.gpu(1)
	for what, look := range map[string]func() (devices.GPUHandle, error){
		"hidden UUID":   func() (devices.GPUHandle, error) { return d.GPUByUUID(hidden.UUID) },
		"hidden bus id": func() (devices.GPUHandle, error) { return d.GPUByBusID(hidden.BusID) },
		"hidden slice":  func() (devices.GPUHandle, error) { return d.GPUByUUID(shown.Instances[0].UUID) },
	} {
		if _, err := look(); !errors.Is(err, devices.ErrNotFound) {
			t.Errorf("%s: %v, want not found", what, err)
		}
	}
	h := must[devices.GPUHandle](t)(d.GPUByUUID(shown.UUID))
	if got := must[int](t)(d.Index(h)); got != 0 {
		t.Errorf("index of the GPU that is seen is %d, want 0", got)
	}
	if err := n.Machine().Reset(0); err != nil {
		t.Errorf("a container holds a GPU that it does not see: %v", err)
	}
}

// A control node that may not be opened is a matter of rights, not of a missing driver.
func TestTheControlNodeMayBeForbidden(t *testing.T) {
	n := startNode(t, mixed)
	root := n.container()
	n.passThrough(root, "nvidiactl", 0o000)
	inside := node{Daemon: n.Daemon, t: t, paths: driverroot.Under(root)}
	if err := inside.process("nobody", false).Driver().Init(); !errors.Is(err, devices.ErrNoPermission) {
		t.Errorf("Init: %v, want no permission", err)
	}
}

// In a container user 0 may do what its nodes allow: the nodes of mig/config and mig/monitor are rights, user 0 alone is none.
func TestRootOfAContainerHasTheRightsOfItsNodes(t *testing.T) {
	n := startNode(t, "gpus: [{model: h100-sxm5-80gb, mig: true}]")
	for _, tt := range []struct {
		name, why    string
		nodes        []string
		list, memory error
	}{
		{"neither", "a GPU that is cut keeps its whole to itself", nil, devices.ErrNoPermission, devices.ErrNoPermission},
		{"config", "who may cut may list", []string{"nvidia-caps/nvidia-cap1"}, nil, devices.ErrNoPermission},
		{"monitor", "who may see all sees the whole", []string{"nvidia-caps/nvidia-cap2"}, devices.ErrNoPermission, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := node{Daemon: n.Daemon, t: t, paths: n.paths}
			n.paths = driverroot.Under(n.container(append([]string{"nvidiactl", "nvidia0"}, tt.nodes...)...))
			d := n.process("powerless", false).Driver()
			check(t, d.Init())
			gpu := must[devices.GPUHandle](t)(d.GPUByIndex(0))
			_, err := d.GIs(gpu, 19)
			answers(t, tt.why, err, tt.list)
			_, err = d.Memory(gpu)
			answers(t, tt.why, err, tt.memory)
			_, err = d.SetMIGMode(gpu, false)
			answers(t, "mode", err, devices.ErrNoPermission)
		})
	}
}
